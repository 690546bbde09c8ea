/* frame.c: the check of the catalogue, every body there and back, and what is none. Vectors: tests/firmware. */
#include "../src/frame.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

/* Feeds all of it; returns the last answer that was not READ_ON. */
static enum read fed(struct reader *reader, const uint8_t *bytes, size_t size) {
    enum read last = READ_ON;
    for (size_t at = 0; at < size; at++) {
        const enum read found = frame_read(reader, bytes[at]);
        if (found != READ_ON)
            last = found;
    }
    return last;
}

static void check_of_the_catalogue(void) { CHECK_EQUAL(crc16(CRC16_START, "123456789", 9), 0x29B1); }

static void there_and_back(void) {
    struct reader reader = {.joined = true};
    for (unsigned long round = 0; round < MANY(20000ul); round++) {
        uint8_t body[HEAD_BODY_BYTES], frame[HEAD_FRAME_BYTES];
        const uint8_t size = (uint8_t)(1 + rand() % (int)HEAD_BODY_BYTES);
        uint8_t length;
        for (uint8_t at = 0; at < size; at++)
            body[at] = (uint8_t)(rand() % 3 == 0 ? 0 : rand());
        length = frame_encode(body, size, frame);
        CHECK(length <= HEAD_FRAME_BYTES && memchr(frame, 0, length) == frame + length - 1);
        CHECK_EQUAL(fed(&reader, frame, length), READ_FRAME);
        CHECK(reader.size == size && memcmp(reader.body, body, size) == 0);
        frame[rand() % (length - 1)] ^= (uint8_t)(1 << rand() % 8);
        CHECK(fed(&reader, frame, length) != READ_FRAME);
        CHECK(fed(&reader, (const uint8_t *)"", 1) != READ_FRAME);
    }
}

static void what_is_none(void) {
    struct reader reader = {0};
    uint8_t frame[HEAD_FRAME_BYTES];
    const uint8_t length = frame_encode("abc", 3, frame);
    CHECK_EQUAL(fed(&reader, (const uint8_t *)"half\0", 5), READ_ON); /* the port was opened in the middle of one */
    CHECK_EQUAL(fed(&reader, (const uint8_t *)"half\0", 5), READ_NONE);
    CHECK_EQUAL(fed(&reader, (const uint8_t *)"\0\0\0", 3), READ_ON); /* nothing between two zeros */
    CHECK_EQUAL(fed(&reader, frame, 3), READ_ON);
    frame_spoil(&reader);
    CHECK_EQUAL(fed(&reader, frame + 3, length - 3u), READ_NONE);
    CHECK_EQUAL(fed(&reader, frame, length), READ_FRAME);
}

/* Whatever comes, nothing is written beyond the reader: the sanitizer watches. */
static void noise(void) {
    struct reader reader = {0};
    unsigned frames = 0;
    for (unsigned long count = 0; count < MANY(2000000ul); count++)
        frames += frame_read(&reader, (uint8_t)(rand() % 8 == 0 ? 0 : rand())) == READ_FRAME;
    CHECK(frames < 40); /* one in 65536 passes the check */
}

int main(void) {
    srand(1);
    check_of_the_catalogue();
    there_and_back();
    what_is_none();
    noise();
    return failures;
}
