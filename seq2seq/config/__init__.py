"""The configuration: schema, values from YAML, and messages about wrong values."""
