engine_sources = src/engine/engine.h
