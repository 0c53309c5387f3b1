/* SPDX-License-Identifier: MIT */
/*
 * libautograph's public interface. A program needs none of it: LD_PRELOAD=libautograph.so is
 * enough. To find out at run time whether the library is loaded, look the functions up with
 * dlsym().
 */
#ifndef AUTOGRAPH_H
#define AUTOGRAPH_H

#define AUTOGRAPH_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version as a number: 10000 * major + 100 * minor + patch. */
AUTOGRAPH_API int autograph_version(void);

/* The same as text, "major.minor.patch". Constant. */
AUTOGRAPH_API const char *autograph_version_string(void);

#ifdef __cplusplus
}
#endif

#endif
