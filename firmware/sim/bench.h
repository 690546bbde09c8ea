/* The sensor head's firmware on a simulated ATmega328P, with the wires it hangs on. Time is in cycles of 16 MHz.
 *
 * Inputs are put in line with the cycle at which they happen; bench_run lets time pass, and the line to the table
 * gathers bytes with the cycle at which each was whole. No wall clock is read: the same inputs give the same bytes.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_HZ 16000000u
#define BENCH_CHANNELS 4u

struct bench;

struct bench_byte {
    uint64_t at;
    uint8_t byte;
};

enum bench_pin { BENCH_LOW, BENCH_HIGH, BENCH_FLOAT };
/* As MCUSR has them. A dip is power that was away for so short a time that memory kept what it held. */
enum bench_cause { BENCH_POWER = 1, BENCH_EXTERNAL = 2, BENCH_BROWNOUT = 4, BENCH_DIP = 5 };
enum bench_way { BENCH_TO_HEAD, BENCH_FROM_HEAD };
enum bench_fault { BENCH_FLIP, BENCH_DROP, BENCH_DOUBLE, BENCH_FRAMING };

/* NULL: the ELF cannot be read. */
struct bench *bench_new(const char *elf);
void bench_free(struct bench *bench);

uint64_t bench_now(const struct bench *bench);
void bench_run(struct bench *bench, uint64_t until);

/* A channel's voltage goes to `mv`, in a straight line of `ramp` cycles. */
void bench_level(struct bench *bench, uint64_t at, unsigned channel, unsigned mv, uint64_t ramp);

/* Voltage of a channel while the emitters are off; a channel without one does not see them. */
void bench_dark(struct bench *bench, unsigned channel, unsigned mv);

/* Even noise of so many mV up and down on every channel. */
void bench_noise(struct bench *bench, unsigned mv);

void bench_lid(struct bench *bench, uint64_t at, enum bench_pin level);
void bench_supply(struct bench *bench, uint64_t at, unsigned mv);

/* A byte from the table; its first bit begins at `at`, or when the byte before it is over. */
void bench_receive(struct bench *bench, uint64_t at, uint8_t byte);

/* Takes what the head has sent by now; returns how many bytes. */
size_t bench_sent(struct bench *bench, struct bench_byte *bytes, size_t room);

/* What happens to the next byte that way; or to each, by chance, so many times in a million (a flipped bit). */
void bench_fault(struct bench *bench, enum bench_way way, enum bench_fault fault);
void bench_errors(struct bench *bench, enum bench_way way, unsigned per_million);
void bench_seed(struct bench *bench, uint64_t seed);

/* The chip stands still for `hold` cycles. Power that goes leaves nothing in memory, and tears the byte that the EEPROM
 * is writing, as does a brown-out. */
void bench_reset(struct bench *bench, uint64_t at, enum bench_cause cause, uint64_t hold);

/* Flash, in words; memory and registers, and the EEPROM, in bytes. */
void bench_patch(struct bench *bench, unsigned address, unsigned word);
unsigned bench_word(const struct bench *bench, unsigned address);
unsigned bench_peek(const struct bench *bench, unsigned address);
void bench_poke(struct bench *bench, unsigned address, unsigned byte);
uint8_t *bench_eeprom(struct bench *bench, size_t *size);

bool bench_emitters(const struct bench *bench);
unsigned bench_resets(const struct bench *bench);   /* by the watchdog */
unsigned bench_overruns(const struct bench *bench); /* bytes that came while two waited: there is no room */
uint64_t bench_slept(const struct bench *bench);    /* cycles */
unsigned bench_stack(const struct bench *bench);    /* the most bytes since power came */
bool bench_crashed(const struct bench *bench);

#endif
