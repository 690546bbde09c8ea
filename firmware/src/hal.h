/* The chip: everything that has a register behind it. */
#ifndef HAL_H
#define HAL_H

#include <stdbool.h>
#include <stdint.h>

#include "levels.h"

/* HEAD_CAUSE_... of the reset, as MCUSR had it. */
extern uint8_t hal_reset_cause;

/* Starts the ports, the ADC, the line and the sampling, and lets interrupts in. */
void hal_start(void);

/* Takes the next sample; false: there is none yet. */
bool hal_sample(struct sample *sample);

/* How many samples had no room, behind the last that hal_sample gave. */
uint8_t hal_dropped(void);

/* Feeds the watchdog: to be called only when sampling went on. */
void hal_feed(void);

/* Takes the next byte from the table; false: there is none yet. */
bool hal_receive(uint8_t *byte);

/* True: a byte was lost or broken since the last call. */
bool hal_spoiled(void);

/* True: all that was sent is on its way, and `frame` of hal_send is free. */
bool hal_line_free(void);

/* Sends a frame, which stays where it is until the line is free. */
void hal_send(const uint8_t *frame, uint8_t size);

void hal_emitters(bool on);

/* Measures the supply, beside the mouth's samples. True: `mv` is a new measurement, of the call before. */
void hal_measure_supply(void);
bool hal_supply(uint16_t *mv);

/* The EEPROM. A write takes 3.4 ms, in which it is not ready; what is there already is not written again. */
bool hal_eeprom_ready(void);
void hal_eeprom_write(uint16_t address, uint8_t byte);
void hal_eeprom_read(uint16_t address, void *bytes, uint8_t size);

/* Sleeps until there is a sample or a byte. */
void hal_rest(void);

#endif
