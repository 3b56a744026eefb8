"""The machine that a program runs on: devices, processes, threads, memory, seeds and signals."""
