/* Bodies of bytes as frames on the line. Holds at most one, and knows no message. */
#include "frame.h"

uint16_t crc16(uint16_t crc, const void *bytes, uint8_t size) {
    const uint8_t *byte = bytes;
    for (; size > 0; size--) {
        uint8_t x = (uint8_t)((crc >> 8) ^ *byte++);
        x ^= (uint8_t)(x >> 4);
        crc = (uint16_t)((uint16_t)(crc << 8) ^ (uint16_t)((uint16_t)x << 12) ^ (uint16_t)((uint16_t)x << 5) ^ x);
    }
    return crc;
}

struct writer {
    uint8_t *frame;
    uint8_t code; /* where the code byte of the block stands */
    uint8_t next;
};

static void put(struct writer *writer, uint8_t byte) {
    if (byte != 0) {
        writer->frame[writer->next++] = byte;
        return;
    }
    writer->frame[writer->code] = (uint8_t)(writer->next - writer->code);
    writer->code = writer->next++;
}

uint8_t frame_encode(const void *body, uint8_t size, uint8_t frame[HEAD_FRAME_BYTES]) {
    const uint16_t check = crc16(CRC16_START, body, size);
    struct writer writer = {.frame = frame, .code = 0, .next = 1};
    for (uint8_t at = 0; at < size; at++)
        put(&writer, ((const uint8_t *)body)[at]);
    put(&writer, (uint8_t)(check & 0xFFu));
    put(&writer, (uint8_t)(check >> 8));
    frame[writer.code] = (uint8_t)(writer.next - writer.code);
    frame[writer.next++] = 0;
    return writer.next;
}

static void append(struct reader *reader, uint8_t byte) {
    if (reader->size < sizeof reader->body)
        reader->body[reader->size++] = byte;
    else
        reader->spoiled = true;
}

static bool good(struct reader *reader) {
    uint16_t check;
    if (reader->spoiled || reader->block != 0 || reader->size <= CHECK_BYTES)
        return false;
    reader->size = (uint8_t)(reader->size - CHECK_BYTES);
    check = (uint16_t)(reader->body[reader->size] | (uint16_t)reader->body[reader->size + 1u] << 8);
    return crc16(CRC16_START, reader->body, reader->size) == check;
}

static enum read end(struct reader *reader) {
    enum read found = READ_ON;
    if (reader->begun && good(reader))
        found = READ_FRAME;
    else if ((reader->begun || reader->spoiled) && reader->joined)
        found = READ_NONE;
    reader->begun = reader->spoiled = false;
    reader->block = 0;
    reader->joined = true;
    return found;
}

enum read frame_read(struct reader *reader, uint8_t byte) {
    if (byte == 0)
        return end(reader);
    if (!reader->begun)
        reader->size = 0;
    if (reader->block > 0) {
        append(reader, byte);
        reader->block--;
        return READ_ON;
    }
    if (reader->begun) /* the block before stood for a zero behind it: none is so long that it does not */
        append(reader, 0);
    reader->begun = true;
    reader->block = (uint8_t)(byte - 1u);
    return READ_ON;
}

void frame_spoil(struct reader *reader) { reader->spoiled = true; }
