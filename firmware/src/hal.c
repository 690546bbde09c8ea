/* The chip: an ATmega328P. Page numbers are of its data sheet, DS40002061B. Interrupts move samples and bytes, and
 * judge nothing. */
#include "hal.h"

#include <avr/eeprom.h>
#include <avr/interrupt.h>
#include <avr/sleep.h>
#include <avr/wdt.h>
#include <util/atomic.h>

#include "../protocol/protocol.h"
#include "board.h"
#include "ledger.h"
#include "limits.h"

#define TICK_HZ (1000000ul / TICK_US)
#define TIMER_TOP (F_CPU_HZ / (TICK_HZ * CHANNELS) - 1u)
#define BAUD (1ul * HEAD_BAUD) /* wider than the chip's int */
#define BAUD_DIVISOR ((F_CPU_HZ + 4u * BAUD) / (8u * BAUD) - 1u) /* with U2X (p. 182) */
#define BAUD_REAL (F_CPU_HZ / (8u * (BAUD_DIVISOR + 1u)))
#define REFERENCE _BV(REFS0) /* AVCC (p. 217) */
#define BANDGAP 0x0Eu        /* 1.1 V (p. 218) */
#define BANDGAP_MV 1100ul
#define SUPPLY_CONVERSIONS 3u /* its source is weak, and settles while it is chosen */

_Static_assert((TIMER_TOP + 1u) * TICK_HZ * CHANNELS == F_CPU_HZ, "ticks of a whole number of cycles");
_Static_assert(TIMER_TOP + 1u > 13u * 128u + 128u, "a conversion of 13 clocks of 125 kHz ends before the next begins");
_Static_assert(BAUD_REAL * 100u > BAUD * 98u && BAUD_REAL * 100u < BAUD * 102u, "within 2 % of the baud rate");
_Static_assert(PART_PRESENT == CHANNELS - 1u, "the mouth is the last channel, and lends its place to the supply");

/* Sizes are powers of two: a mask brings an index round. */
#define SAMPLES 8u   /* 4 ms: no pass of the main loop takes so long */
#define RECEIVED 32u /* 5 ms of the line */

static struct sample samples[SAMPLES];
static struct sample *filling = samples;
static volatile uint8_t filled; /* samples that are whole; counts on */
static volatile uint8_t taken;
static volatile uint8_t dropped;
static uint8_t channel; /* whose conversion runs */
static uint16_t mouth;  /* the last that was read of it */

static volatile uint8_t supply_conversions; /* to be made */
static bool supply_runs;
static uint16_t supply_level;
static bool supply_asked;

static uint8_t received[RECEIVED];
static volatile uint8_t received_count; /* bytes that came; counts on */
static volatile uint8_t received_taken;
static volatile bool spoiled;

static const uint8_t *volatile sending;
static volatile uint8_t sending_left;

/* --- interrupts ---------------------------------------------------------------------------------- */

static inline uint8_t source(uint8_t of) {
    supply_runs = of == PART_PRESENT && supply_conversions > 0;
    return supply_runs ? REFERENCE | BANDGAP : REFERENCE | of;
}

/* Eight thousand a second: what was converted is read before the next is chosen, as the next is chosen for it. */
ISR(TIMER1_COMPA_vect) {
    const uint16_t level = ADC;
    const uint8_t done = channel;
    const bool supply = supply_runs;
    channel = (uint8_t)(done + 1u) % CHANNELS;
    ADMUX = source(channel);
    ADCSRA |= _BV(ADSC);
    if (done != PART_PRESENT) {
        filling->level[done] = level;
        return;
    }
    if (supply) {
        supply_level = level;
        supply_conversions--;
    } else {
        mouth = level;
    }
    filling->level[PART_PRESENT] = mouth;
    filling->lid = (LID_PIN & LID) != 0;
    if (dropped > 0 || (uint8_t)(filled - taken) >= SAMPLES - 1u) {
        dropped++; /* and all that follow, until somebody has asked: so what is lost is in one piece */
        return;
    }
    filled++;
    filling = filling == &samples[SAMPLES - 1u] ? samples : filling + 1;
}

ISR(USART_RX_vect) {
    const uint8_t broken = UCSR0A & (_BV(FE0) | _BV(DOR0));
    const uint8_t byte = UDR0;
    if (broken != 0 || (uint8_t)(received_count - received_taken) >= RECEIVED) {
        spoiled = true;
        return;
    }
    received[received_count % RECEIVED] = byte;
    received_count++;
}

ISR(USART_UDRE_vect) {
    UDR0 = *sending++;
    if (--sending_left == 0)
        UCSR0B &= (uint8_t)~_BV(UDRIE0);
}

/* --- start --------------------------------------------------------------------------------------- */

static void start_ports(void) {
    DIDR0 = ANALOG_MASK;
    LID_PORT |= LID;
    EMITTER_DDR |= EMITTER;
    hal_emitters(true);
}

static void start_adc(void) {
    ADMUX = REFERENCE;
    ADCSRA = _BV(ADEN) | _BV(ADPS2) | _BV(ADPS1) | _BV(ADPS0) | _BV(ADSC); /* 125 kHz */
    while ((ADCSRA & _BV(ADSC)) != 0) /* the first takes longer (p. 208); 0.2 ms */
        ;
    ADCSRA |= _BV(ADSC);
}

static void start_line(void) {
    UCSR0A = _BV(U2X0);
    UBRR0 = BAUD_DIVISOR;
    UCSR0C = _BV(UCSZ01) | _BV(UCSZ00);
    UCSR0B = _BV(RXCIE0) | _BV(RXEN0) | _BV(TXEN0);
}

static void start_timer(void) {
    OCR1A = TIMER_TOP;
    TIMSK1 = _BV(OCIE1A);
    TCCR1B = _BV(WGM12) | _BV(CS10);
}

void hal_start(void) {
    start_ports();
    start_adc();
    start_line();
    start_timer();
    sei();
}

/* --- samples ------------------------------------------------------------------------------------- */

bool hal_sample(struct sample *sample) {
    if (filled == taken)
        return false;
    *sample = samples[taken % SAMPLES];
    taken++;
    return true;
}

uint8_t hal_dropped(void) {
    uint8_t count;
    ATOMIC_BLOCK(ATOMIC_FORCEON) {
        count = dropped;
        dropped = 0;
    }
    return count;
}

void hal_feed(void) { wdt_reset(); }

void hal_emitters(bool on) {
    if (on)
        EMITTER_PORT |= EMITTER;
    else
        EMITTER_PORT &= (uint8_t)~EMITTER;
}

void hal_measure_supply(void) {
    supply_asked = true;
    supply_conversions = SUPPLY_CONVERSIONS;
}

bool hal_supply(uint16_t *mv) {
    if (!supply_asked || supply_conversions > 0)
        return false;
    supply_asked = false;
    *mv = (uint16_t)(BANDGAP_MV * 1024u / supply_level);
    return true;
}

/* --- the line ------------------------------------------------------------------------------------ */

bool hal_receive(uint8_t *byte) {
    if (received_count == received_taken)
        return false;
    *byte = received[received_taken % RECEIVED];
    received_taken++;
    return true;
}

bool hal_spoiled(void) {
    const bool was = spoiled;
    if (was)
        spoiled = false;
    return was;
}

bool hal_line_free(void) { return sending_left == 0; }

void hal_send(const uint8_t *frame, uint8_t size) {
    sending = frame;
    sending_left = size;
    UCSR0B |= _BV(UDRIE0);
}

/* --- the EEPROM ---------------------------------------------------------------------------------- */

bool hal_eeprom_ready(void) { return eeprom_is_ready(); }

void hal_eeprom_write(uint16_t address, uint8_t byte) {
    EEAR = address;
    EECR |= _BV(EERE);
    if (EEDR == byte)
        return;
    EEDR = byte;
    ATOMIC_BLOCK(ATOMIC_FORCEON) { /* four cycles from one to the other (p. 31) */
        EECR |= _BV(EEMPE);
        EECR |= _BV(EEPE);
    }
}

void hal_eeprom_read(uint16_t address, void *bytes, uint8_t size) {
    uint8_t *byte = bytes;
    for (; size > 0; size--) {
        EEAR = address++;
        EECR |= _BV(EERE);
        *byte++ = EEDR;
    }
}

/* --- rest ---------------------------------------------------------------------------------------- */

/* What comes between the look and the sleep waits for the next interrupt: an eighth of a millisecond at most. */
void hal_rest(void) {
    SMCR = _BV(SE); /* idle (p. 48) */
    while (filled == taken && received_count == received_taken)
        sleep_cpu();
    SMCR = 0;
}
