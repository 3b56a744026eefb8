"""Fast formulations of single operations, made for a CPU; `switch` selects torch's own."""
