/* The pins of the board, an Arduino Nano with an ATmega328P at 16 MHz: the only place that names them. */
#ifndef BOARD_H
#define BOARD_H

#include <avr/io.h>

#define F_CPU_HZ 16000000ul

/* A0 to A3: inner beam, outer beam, reflectance, mouth, in the order of the channels. */
#define ANALOG_MASK (_BV(ADC0D) | _BV(ADC1D) | _BV(ADC2D) | _BV(ADC3D))

/* D4: the lid's switch to ground, closed with the lid; the pull-up makes a torn wire an open lid. */
#define LID_PORT PORTD
#define LID_PIN PIND
#define LID _BV(PD4)

/* D8: the emitters' transistor, on where high. */
#define EMITTER_PORT PORTB
#define EMITTER_DDR DDRB
#define EMITTER _BV(PB0)

#endif
