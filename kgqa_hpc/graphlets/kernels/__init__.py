"""The inner loops, compiled with numba. Nothing here knows of files, threads or Python objects."""
