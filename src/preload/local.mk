driver_sources = src/driver/driver.c src/driver/driver.h
preload_sources =
