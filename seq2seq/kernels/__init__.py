"""Fast formulations of single operations on a CPU, and the switch to torch's own."""
