"""The embedded engine: llama.cpp on the CPU, inside the engine process."""
