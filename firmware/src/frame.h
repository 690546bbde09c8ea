/* Bodies of bytes as frames on the line, as controller/link/frame.py makes them: COBS over the body and its CRC-16,
 * and a zero. */
#ifndef FRAME_H
#define FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "../protocol/protocol.h"

#define CHECK_BYTES 2u
#define CRC16_START 0xFFFFu

/* CRC-16/IBM-3740, also called CCITT-FALSE: of `123456789` it is 0x29B1. */
uint16_t crc16(uint16_t crc, const void *bytes, uint8_t size);

/* Makes the frame of a body of 1 to HEAD_BODY_BYTES bytes; returns its size, with the zero at its end. */
uint8_t frame_encode(const void *body, uint8_t size, uint8_t frame[HEAD_FRAME_BYTES]);

struct reader { /* all zero at the start */
    uint8_t body[HEAD_BODY_BYTES + CHECK_BYTES];
    uint8_t size;  /* of what is in `body`; after READ_FRAME of the body alone */
    uint8_t block; /* bytes until the next code byte */
    bool begun;
    bool spoiled;
    bool joined; /* a zero has been seen: what went before may have been half a frame */
};

enum read { READ_ON, READ_FRAME, READ_NONE }; /* the frame goes on; a body is there; what ended was none */

enum read frame_read(struct reader *reader, uint8_t byte);

/* A byte was lost or broken on the line: what it was in is no frame. */
void frame_spoil(struct reader *reader);

#endif
