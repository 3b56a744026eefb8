"""Fast formulations of single operations on a CPU; `switch` selects torch's own operations."""
