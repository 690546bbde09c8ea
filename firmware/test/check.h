/* A test is a function that CHECKs; CHECKED in main runs it, and the program fails if any did. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>

static int failures;

#define CHECK(condition)                                                                                                     \
    do {                                                                                                                     \
        if (!(condition)) {                                                                                                  \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                                   \
            failures++;                                                                                                      \
        }                                                                                                                    \
    } while (0)

#define CHECK_EQUAL(got, expected)                                                                                           \
    do {                                                                                                                     \
        const long long got_ = (long long)(got), expected_ = (long long)(expected);                                          \
        if (got_ != expected_) {                                                                                             \
            printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, expected_);                              \
            failures++;                                                                                                      \
        }                                                                                                                    \
    } while (0)

#endif
