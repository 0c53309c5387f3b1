/* SPDX-License-Identifier: MIT */
/* report_plugin.c: a library whose constructor calls back into the program that opens it. */
void report_constructed(void);

__attribute__((constructor)) static void begin(void)
{
    report_constructed();
}
