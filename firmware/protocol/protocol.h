/* Messages of the sensor head. Made from head.toml by generate.py: edit that, and run `make generate`. */
#ifndef HEAD_PROTOCOL_H
#define HEAD_PROTOCOL_H

#include <stdint.h>

#define HEAD_PROTOCOL 1u

/* with U2X at 16 MHz 0.8 % too slow; 115200 would be 2.1 % too fast (ATmega328P data sheet, table 20-6) */
#define HEAD_BAUD 57600u
/* type and fields of the longest message, with room to grow */
#define HEAD_BODY_BYTES 40u
/* a body, two bytes of check, one of stuffing, the zero at the end */
#define HEAD_FRAME_BYTES 44u
/* events that wait for their ACK; a card makes three at most: itself, and the mouth empty and full */
#define HEAD_QUEUE_EVENTS 8u
/* free places below which what is only counted (`evidence`) is not queued */
#define HEAD_SPARE_EVENTS 4u
/* all waiting events again, in order: twice a full queue's time on the wire */
#define HEAD_RESEND_MS 100u
/* HELLO again, while the boot has no name */
#define HEAD_HELLO_MS 200u
/* HEARTBEAT; with one byte in a hundred broken, three in a row are lost every other minute */
#define HEAD_BEAT_MS 200u
/* so long without a frame, the head is lost: eight heartbeats */
#define HEAD_SILENCE_MS 1600u
/* a question without an answer is asked again; an EEPROM record takes 90 ms */
#define HEAD_ANSWER_MS 400u
/* the fastest draw covers a beam for so long; a head blind for less has missed no card */
#define HEAD_PASSAGE_MS 25u
/* the ADC has 10 bits */
#define HEAD_LEVEL_MAX 1023u
/* counts between the two thresholds of a channel: twice the noise */
#define HEAD_SWING_MIN 40u

/* What the classification goes by. */
#define HEAD_SETTLE_US 2000u
#define HEAD_MOUTH_SETTLE_US 50000u
#define HEAD_LID_SETTLE_US 10000u
#define HEAD_CHATTER_US 50000u
#define HEAD_CARD_MIN_US 12000u
#define HEAD_LAG_MIN_US 300u
#define HEAD_DROPOUT_US 5000u
#define HEAD_BACK_US 200000ul
#define HEAD_FOLLOW_US 80000ul
#define HEAD_PULL_US 400000ul
#define HEAD_SLOW_US 1500000ul
#define HEAD_STUCK_US 30000000ul
#define HEAD_FLICKER_US 1000000ul
#define HEAD_CUT_MIN_US 10000u
#define HEAD_CUT_WAITS_US 300000ul
#define HEAD_CUT_STUCK_US 1000000ul
#define HEAD_MOUTH_EARLY_US 100000ul
#define HEAD_RESOLUTION_US 500u
#define HEAD_FOLLOW_LAGS_PERCENT 150u
#define HEAD_CARD_LAGS_PERCENT 600u
#define HEAD_TWO_MIN_PERCENT 150u
#define HEAD_TWO_MAX_PERCENT 250u
#define HEAD_EVEN_PERCENT 150u
#define HEAD_CUT_SURE_PERCENT 75u
#define HEAD_CUT_NONE_PERCENT 25u
#define HEAD_FLICKER_COUNT 10u
#define HEAD_BLIND_COUNT 3u

/* What happened at the shoe. */
#define HEAD_KIND_CARD 1u /* one card left */
#define HEAD_KIND_TWO 2u /* two cards left as one */
#define HEAD_KIND_CUT 3u /* the cut card left */
#define HEAD_KIND_WAITING 4u /* the cut card lies in the mouth; evidence */
#define HEAD_KIND_PULLBACK 5u /* a front went back before it left; evidence */
#define HEAD_KIND_REVERSE 6u /* a card came in from outside */
#define HEAD_KIND_AMBIGUOUS 7u /* something moved, and how many cards left is not known: `why` */
#define HEAD_KIND_STUCK 8u /* `line` cannot be trusted: `why` */
#define HEAD_KIND_CLEAR 9u /* `line` can be trusted again */
#define HEAD_KIND_GLITCH 10u /* `line` saw what is no card; evidence */
#define HEAD_KIND_LID 11u /* the lid is open (ON) or closed */
#define HEAD_KIND_PRESENT 12u /* a card lies in the mouth (ON) or none */

/* A sensor. */
#define HEAD_LINE_NONE 0u /* of no one sensor */
#define HEAD_LINE_INNER 1u /* the exit's beam nearer to the cards */
#define HEAD_LINE_OUTER 2u /* the exit's other beam */
#define HEAD_LINE_CUT 3u /* the reflectance sensor */
#define HEAD_LINE_PRESENT 4u /* the mouth */
#define HEAD_LINE_LID 5u /* the lid's switch */

/* Why a movement is ambiguous, or a sensor at fault. */
#define HEAD_WHY_NONE 0u /* no reason is asked */
#define HEAD_WHY_DRAGGED 1u /* the outer beam cleared over a covered inner one */
#define HEAD_WHY_TIGHT 2u /* the inner beam was covered again before the last card was out */
#define HEAD_WHY_LENGTH 3u /* too long for one card, too slow to be sure of two */
#define HEAD_WHY_SENSORS 4u /* the beams contradict each other */
#define HEAD_WHY_OUTSIDE 5u /* the outer beam was covered first, and no card went in */
#define HEAD_WHY_CUT 6u /* partly a card, partly the cut card */
#define HEAD_WHY_LOST 7u /* the queue was full: what moved since is in no event */
#define HEAD_WHY_STUCK 8u /* covered for too long */
#define HEAD_WHY_FLICKERS 9u /* too many glitches */
#define HEAD_WHY_BLIND 10u /* does not see what its neighbours see */

/* Why the head does not do what it was asked. */
#define HEAD_REFUSAL_UNKNOWN 1u /* no such message */
#define HEAD_REFUSAL_LENGTH 2u /* the message has another length */
#define HEAD_REFUSAL_RANGE 3u /* a threshold over level_max, or two nearer than swing_min */
#define HEAD_REFUSAL_BUSY 4u /* a card is at the exit, or a record is being written: ask again */
#define HEAD_REFUSAL_STORE 5u /* the EEPROM did not keep what was written */

/* Bits of an event. */
#define HEAD_FLAG_SLOW 1u /* the card covered the inner beam for longer than slow_us */
#define HEAD_FLAG_ON 2u /* LID: open; PRESENT: a card is there */
#define HEAD_FLAG_ALONE 4u /* CUT: the reflectance sensor alone saw it, no beam */

/* What reset the head; more than one at power-on. */
#define HEAD_CAUSE_POWER 1u /* power came */
#define HEAD_CAUSE_EXTERNAL 2u /* the reset pin: a programmer, or DTR as the port was opened */
#define HEAD_CAUSE_BROWNOUT 4u /* the supply fell too low */
#define HEAD_CAUSE_WATCHDOG 8u /* sampling stood still */

/* The sensors that are True, as controller/link/movements.py has it, and how the exit stands. */
#define HEAD_SEEN_INNER 1u /* the beam is interrupted */
#define HEAD_SEEN_OUTER 2u /* the beam is interrupted */
#define HEAD_SEEN_CUT 4u /* the cut card is under the sensor */
#define HEAD_SEEN_PRESENT 8u /* a card is in the mouth */
#define HEAD_SEEN_LID 16u /* the lid is open */
#define HEAD_SEEN_MOVING 32u /* a passage is not over, or a beam has not settled */

/* Little-endian, as AVR and x86 have it; the first byte of each is its number. */

/* From the head. Who I am. At start each hello_ms until the boot is named; and whenever asked. */
#define HEAD_HELLO 0x01u
#define HEAD_HELLO_BYTES 30u
typedef struct __attribute__((packed)) {
    uint8_t number;
    uint8_t protocol; /* the number above */
    uint8_t major; /* of the firmware's version */
    uint8_t minor; /* of the firmware's version */
    uint8_t patch; /* of the firmware's version */
    uint32_t build; /* the first four bytes of the SHA-256 of the sources, in the order in which they are written */
    uint8_t cause; /* of the last reset */
    uint16_t boots; /* starts since power came, the first is 1; goes round */
    uint32_t boot; /* the name of this boot, as NAME gave it; 0: none yet */
    uint32_t next; /* the sequence of the first event that waits, or of the next to be made; the first is 1 */
    uint32_t uptime_ms; /* since the first sample */
    uint32_t last_ms; /* uptime_ms at the last sample before the reset; 0xFFFFFFFF: not known */
    uint8_t lost; /* events without an ACK that the reset lost, and one more if a passage was not over; 255: not known */
    uint8_t seen; /* now */
} head_hello_t;
_Static_assert(sizeof(head_hello_t) == HEAD_HELLO_BYTES, "head_hello_t has no gaps");

/* From the head. Something happened. Sent once the boot has a name, kept and sent again each resend_ms until an
 * ACK covers it. */
#define HEAD_EVENT 0x02u
#define HEAD_EVENT_BYTES 19u
typedef struct __attribute__((packed)) {
    uint8_t number;
    uint32_t seq; /* numbers the events of a boot without a gap, from 1 on */
    uint32_t age_ms; /* from when it happened to when this frame's first byte is sent */
    uint8_t kind; /* what */
    uint8_t line; /* STUCK, CLEAR, GLITCH: which sensor; else NONE */
    uint8_t why; /* AMBIGUOUS, STUCK: why; else NONE */
    uint8_t flags; /* more of it */
    uint16_t covered_ms; /* CARD, TWO, CUT: for how long the inner beam was covered; at most 65534, 65535: not seen */
    uint16_t lag_100us; /* CARD, TWO, CUT: how long the front took from beam to beam; at most 65534, 65535: not seen */
    uint16_t reflected; /* CARD, TWO, CUT: mean reflectance in the first half of the time over both beams */
} head_event_t;
_Static_assert(sizeof(head_event_t) == HEAD_EVENT_BYTES, "head_event_t has no gaps");

/* From the head. I sample and I am well. Each beat_ms, while the boot has a name. The counters are since power
 * came and go round; only a power cut makes them 0. */
#define HEAD_HEARTBEAT 0x03u
#define HEAD_HEARTBEAT_BYTES 28u
typedef struct __attribute__((packed)) {
    uint8_t number;
    uint32_t uptime_ms; /* since the first sample; goes round */
    uint32_t next; /* as in HELLO */
    uint8_t waiting; /* events without an ACK */
    uint8_t seen; /* now */
    uint8_t faults; /* the lines that cannot be trusted, as STUCK and CLEAR told */
    uint16_t supply_mv; /* VCC in mV, by the bandgap: 10 % exact */
    uint16_t cards; /* CARD once each, TWO twice */
    uint16_t glitches; /* what was too short for a card */
    uint16_t pullbacks; /* fronts that went back */
    uint16_t resent; /* events sent again */
    uint16_t bad_frames; /* received frames that were none, and bytes with a framing error or overrun */
    uint16_t overflows; /* events that found the queue full */
    uint16_t late_ticks; /* samples that nobody had time for: what moved meanwhile is told as AMBIGUOUS */
} head_heartbeat_t;
_Static_assert(sizeof(head_heartbeat_t) == HEAD_HEARTBEAT_BYTES, "head_heartbeat_t has no gaps");

/* From the head. The thresholds in force, as they were read back from where they are kept. Answers
 * ASK_THRESHOLDS and SET_THRESHOLDS. */
#define HEAD_THRESHOLDS 0x04u
#define HEAD_THRESHOLDS_BYTES 20u
typedef struct __attribute__((packed)) {
    uint8_t number;
    uint8_t kept; /* 0: no record is good, these are the firmware's own; 1: from the EEPROM */
    uint16_t generation; /* of the record, one more with each that differs; 0: none */
    uint16_t inner_on; /* inner beam: interrupted from here on; above inner_off or below it, as the sensor is wired */
    uint16_t inner_off; /* inner beam: free from here on */
    uint16_t outer_on; /* outer beam: interrupted */
    uint16_t outer_off; /* outer beam: free */
    uint16_t cut_on; /* reflectance: the cut card */
    uint16_t cut_off; /* reflectance: a card or nothing */
    uint16_t present_on; /* mouth: a card */
    uint16_t present_off; /* mouth: empty */
} head_thresholds_t;
_Static_assert(sizeof(head_thresholds_t) == HEAD_THRESHOLDS_BYTES, "head_thresholds_t has no gaps");

/* From the head. What each channel reads now, means of 8 samples. Answers ASK_LEVELS. */
#define HEAD_LEVELS 0x05u
#define HEAD_LEVELS_BYTES 12u
typedef struct __attribute__((packed)) {
    uint8_t number;
    uint16_t inner; /* ADC counts */
    uint16_t outer; /* ADC counts */
    uint16_t cut; /* ADC counts */
    uint16_t present; /* ADC counts */
    uint8_t seen; /* what the lines come to */
    uint16_t supply_mv; /* VCC in mV */
} head_levels_t;
_Static_assert(sizeof(head_levels_t) == HEAD_LEVELS_BYTES, "head_levels_t has no gaps");

/* From the head. What each channel read with its emitter off and on, in ADC counts. Answers SELF_TEST. */
#define HEAD_TESTED 0x06u
#define HEAD_TESTED_BYTES 18u
typedef struct __attribute__((packed)) {
    uint8_t number;
    uint8_t passed; /* INNER, OUTER, CUT, PRESENT: the two differ by swing_min or more */
    uint16_t inner_dark; /* emitters off */
    uint16_t outer_dark; /* emitters off */
    uint16_t cut_dark; /* emitters off */
    uint16_t present_dark; /* emitters off */
    uint16_t inner_lit; /* emitters on */
    uint16_t outer_lit; /* emitters on */
    uint16_t cut_lit; /* emitters on */
    uint16_t present_lit; /* emitters on */
} head_tested_t;
_Static_assert(sizeof(head_tested_t) == HEAD_TESTED_BYTES, "head_tested_t has no gaps");

/* From the head. I did not do that. */
#define HEAD_REFUSED 0x07u
#define HEAD_REFUSED_BYTES 3u
typedef struct __attribute__((packed)) {
    uint8_t number;
    uint8_t message; /* the number of the message that came */
    uint8_t why; /* why */
} head_refused_t;
_Static_assert(sizeof(head_refused_t) == HEAD_REFUSED_BYTES, "head_refused_t has no gaps");

/* From the table. Answered by HELLO. */
#define HEAD_ASK_HELLO 0x81u
#define HEAD_ASK_HELLO_BYTES 1u
typedef struct __attribute__((packed)) {
    uint8_t number;
} head_ask_hello_t;
_Static_assert(sizeof(head_ask_hello_t) == HEAD_ASK_HELLO_BYTES, "head_ask_hello_t has no gaps");

/* From the table. Names the boot, once: taken where `boots` is the head's own and it has no name. Answered by
 * HELLO in any case. */
#define HEAD_NAME 0x82u
#define HEAD_NAME_BYTES 7u
typedef struct __attribute__((packed)) {
    uint8_t number;
    uint16_t boots; /* as HELLO said */
    uint32_t boot; /* random, not 0 */
} head_name_t;
_Static_assert(sizeof(head_name_t) == HEAD_NAME_BYTES, "head_name_t has no gaps");

/* From the table. Every event of that boot up to `seq` is in the journal. Not answered. */
#define HEAD_ACK 0x83u
#define HEAD_ACK_BYTES 9u
typedef struct __attribute__((packed)) {
    uint8_t number;
    uint32_t boot; /* an ACK of another boot is ignored */
    uint32_t seq; /* the last event covered; one that was never made is ignored */
} head_ack_t;
_Static_assert(sizeof(head_ack_t) == HEAD_ACK_BYTES, "head_ack_t has no gaps");

/* From the table. Answered by THRESHOLDS. */
#define HEAD_ASK_THRESHOLDS 0x84u
#define HEAD_ASK_THRESHOLDS_BYTES 1u
typedef struct __attribute__((packed)) {
    uint8_t number;
} head_ask_thresholds_t;
_Static_assert(sizeof(head_ask_thresholds_t) == HEAD_ASK_THRESHOLDS_BYTES, "head_ask_thresholds_t has no gaps");

/* From the table. Keeps these and goes by them at once. Answered by THRESHOLDS when they are read back, or
 * REFUSED. The same again writes nothing. */
#define HEAD_SET_THRESHOLDS 0x85u
#define HEAD_SET_THRESHOLDS_BYTES 17u
typedef struct __attribute__((packed)) {
    uint8_t number;
    uint16_t inner_on; /* as in THRESHOLDS */
    uint16_t inner_off; /* as in THRESHOLDS */
    uint16_t outer_on; /* as in THRESHOLDS */
    uint16_t outer_off; /* as in THRESHOLDS */
    uint16_t cut_on; /* as in THRESHOLDS */
    uint16_t cut_off; /* as in THRESHOLDS */
    uint16_t present_on; /* as in THRESHOLDS */
    uint16_t present_off; /* as in THRESHOLDS */
} head_set_thresholds_t;
_Static_assert(sizeof(head_set_thresholds_t) == HEAD_SET_THRESHOLDS_BYTES, "head_set_thresholds_t has no gaps");

/* From the table. Answered by LEVELS. */
#define HEAD_ASK_LEVELS 0x86u
#define HEAD_ASK_LEVELS_BYTES 1u
typedef struct __attribute__((packed)) {
    uint8_t number;
} head_ask_levels_t;
_Static_assert(sizeof(head_ask_levels_t) == HEAD_ASK_LEVELS_BYTES, "head_ask_levels_t has no gaps");

/* From the table. Switches the emitters off and on, and is blind for 40 ms at most. Answered by TESTED, or
 * REFUSED while a passage is not over. */
#define HEAD_SELF_TEST 0x87u
#define HEAD_SELF_TEST_BYTES 1u
typedef struct __attribute__((packed)) {
    uint8_t number;
} head_self_test_t;
_Static_assert(sizeof(head_self_test_t) == HEAD_SELF_TEST_BYTES, "head_self_test_t has no gaps");

#endif
