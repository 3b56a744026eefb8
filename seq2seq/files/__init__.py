"""Read and write files: paths, lines, and files that are complete or absent."""
