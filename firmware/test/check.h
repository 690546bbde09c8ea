/* What a test asks. main returns how many were not so: on this machine, and on the simulated chip (chip.c). */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>

#ifdef __AVR__
#include <avr/pgmspace.h>
#define SAY(format, ...) printf_P(PSTR(format), __VA_ARGS__)
#define QUOTED(text) PSTR(text) /* or the texts alone would fill its memory */
#define TEXT "%S"
#define MANY(count) ((count) / 200ul) /* a small chip is slow */
#else
#define SAY(format, ...) printf(format, __VA_ARGS__)
#define QUOTED(text) text
#define TEXT "%s"
#define MANY(count) (count)
#endif

static int failures;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            SAY(TEXT ":%d: not so: " TEXT "\n", QUOTED(__FILE__), __LINE__, QUOTED(#condition)); \
            failures++; \
        } \
    } while (0)

#define CHECK_EQUAL(got, expected) \
    do { \
        const long got_ = (long)(got), expected_ = (long)(expected); \
        if (got_ != expected_) { \
            SAY(TEXT ":%d: " TEXT " is %ld, not %ld\n", QUOTED(__FILE__), __LINE__, QUOTED(#got), got_, expected_); \
            failures++; \
        } \
    } while (0)

#endif
