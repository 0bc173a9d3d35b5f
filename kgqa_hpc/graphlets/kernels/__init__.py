"""The inner loops, compiled with numba: functions of arrays, without files, threads or Python objects."""
