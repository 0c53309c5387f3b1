# Unit tests: parts of the library without CUDA, each in a program of its own.
