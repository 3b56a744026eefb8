"""The machine a program runs on: devices, processes, threads, seeds and signals."""
