"""llama.cpp inside the process, on the CPU: the engine that works everywhere."""
