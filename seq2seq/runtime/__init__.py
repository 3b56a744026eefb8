"""The machine that a program runs on: devices, processes, threads, memory, seeds, signals, and fast
kernels."""
