"""What the dealer reads: every state in both languages within a panel's limits, and the prompts that are prescribed."""

import ast
import io
import logging
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from hypothesis import given
from hypothesis import strategies as st

from controller.config.profiles import Step
from controller.control.parts import PARTS
from controller.core import conditions
from controller.core.cards import DECK, Slot
from controller.core.conditions import ROWS, Refused
from controller.core.facts import Phase
from controller.core.profile import Confirms
from controller.core.resolving import REPORTED
from controller.core.shoe import END_REASONS
from controller.core.state import State
from controller.core.view import Prompt, Text, View, of_disk, view
from controller.link.movements import Line
from controller.panel import LOCALE, NO_ANSWER, NO_NOTICE, NO_PROMPT, LanguageError, MissingWordsError, Panel21, Words
from controller.panel import languages as languages_of
from tests.panel_states import OPTIONS, Table, played

ROOT = Path(__file__).parent.parent
LANGUAGES = ("en", "es")
EVERY = tuple(map(Words, LANGUAGES))
TABLE = "BAC-07"
STEPS = get_args(Step)

# A scenario: where its prompt is from, the table's options, its script (tests/panel_states.py); below it the panel at
# its end: headline / line / line, and the strip where it is not blank.

# Word for word as irregularities.md (the codes, and its first page) and DESIGN 6 have them.
PRESCRIBED = """
grammar: load start tick
    JUGADOR 1ª / SAQUE CARTA
    strip: NO MÁS APUESTAS
grammar: load start tick 2H 2S 3D 5C
    JUGADOR 3ª / J 5: PIDE / cruzada
grammar: load start tick 2H 2S 3D 2C 6H
    BANCA 3ª / B 4 CON 6: PIDE / encima, cruzada
grammar, receipts: load start tick
    NO MÁS / APUESTAS / Anuncie
grammar: load start tick TH 2S QD 4C KS
    GANA BANCA / J 0   B 6 / CONFIRME
grammar: load start tick 3H 3S 4D 4C
    EMPATE A 7 / J 7   B 7 / CONFIRME
grammar: load start tick 3H 3S 4D 4C confirm
    RECOJA / DCHA. A IZQDA. / al descarte
grammar, work: confirm confirm
    LAVAR / DOS PILAS / CONFIRMAR
grammar: load down
    ESPERE / SIN SERVIDOR / no abra apuestas
DESIGN 6, receipts: load start tick receipt
    JUGADOR 1ª / SAQUE CARTA
    strip: NO MÁS APUESTAS
I01: load start tick 2H 2S 3D noread
    NO LEÍDA / PASE BANCA 2ª / otra vez
I02, sensors: load start tick move 2H move move move
    ALTO / NO SAQUE MÁS / PASE BANCA 1ª
I04, sensors: load start tick move 2H 2H
    BANCA 1ª / SAQUE CARTA
    strip: Doble lectura
I05, one_deck: load start tick 7S 7S
    SOBRA UN 7♠ / NO LA MUEVA / LLAME AL JEFE
    strip: JEFE LLAMADO
I06: load start tick 2H alien
    NO VÁLIDA / CARTA AJENA / LLAME AL JEFE
    strip: JEFE LLAMADO
I07: load start 2H
    ALTO / CARTA ADELANTADA / no toque: jefe
    strip: NO MÁS APUESTAS
I08, sensors: load start tick move 2H two
    ALTO / DOS CARTAS / no separe: jefe
    strip: JEFE LLAMADO
I09: load start tick 9H 2S TD 3C 5D
    CARTA DE MÁS / NO LA DESTAPE / CONFIRME y jefe
    strip: JEFE LLAMADO
I10: load start tick 2H 2S 4D 2C
    BANCA 3ª / J 6 SE PLANTA / B 4: PIDE
I10: load start tick 2H 2S 4D 2C 5D
    GANA BANCA / J 6   B 9 / CONFIRME
    strip: 5♦ ES DE BANCA
I11: load start tick TH 2S QD 4C KS 5D
    CARTA DE MÁS / NO LA DESTAPE / CONFIRME y jefe
    strip: JEFE LLAMADO
I13: load start tick 2H 2S 3D 5C confirm
    FALTA 3ª / DE JUGADOR / J 5: PIDE
I17, sensors: load start tick move 2H back
    ALTO / NO LA DEVUELVA / LLAME AL JEFE
    strip: JEFE LLAMADO
I18: load start tick 2H cut
    RETIRE / CARTA DE CORTE / a su derecha
    strip: ÚLTIMA MANO
I18: load start tick 2H cut 2S
    JUGADOR 2ª / SAQUE CARTA
    strip: ÚLTIMA MANO
I19: load cut
    RETIRE / CARTA DE CORTE / a su derecha
    strip: ÚLTIMA MANO
I19: load start cut
    RETIRE / CARTA DE CORTE / a su derecha
    strip: ÚLTIMA MANO
I20: load start tick 9H 2S TD 3C cut
    GANA JUGADOR / J 9   B 5 / CONFIRME
    strip: RETIRE EL CORTE
I20: load start tick 9H 2S TD 3C cut confirm
    ÚLTIMA MANO / ANUNCIE: ÚLTIMA / antes de barajar
    strip: ÚLTIMA MANO
I23: load start tick 2H empty tick
    ZAPATO VACÍO / LLAME AL JEFE
    strip: JEFE LLAMADO
I25, burn sensors: load move 6H move move
    QUEMAR 6 / VAN 2 DE 6 / boca abajo
I28: load start tick 9H 2S TD 3C tick
    CONFIRME / EL RESULTADO / J 9   B 5
I31: load start tick 2H void:caída
    ANULADA / RONDA ANULADA / MOTIVO caída
I32: load start tick 2H down
    BANCA 1ª / SAQUE CARTA
    strip: SIN RED
I33, receipts: load start down tick tick
    CANCELADA / RONDA CANCELADA / sin red, espere
    strip: SIN SERVIDOR
I34: load backlog
    PARE / TERMINE LA RONDA / llame al técnico
I35: load start tick 8H TC 3S 6D restart up
    ¿COINCIDE? / J 8♥ 3♠ / B 10♣ 6♦
I39: load opened
    TAPA ABIERTA / CIERRE LA TAPA / LLAME AL JEFE
    strip: JEFE LLAMADO
I40: load fault:I40:scanner
    SIN ESCÁNER / NO SAQUE CARTAS / LLAME AL JEFE
I48: load end:discretion
    CAMBIO / DE ZAPATO / cuente el resto
I53: load dispute:12:tie
    VERIFIQUE / RESULTADO / LLAME AL JEFE
    strip: JEFE LLAMADO
I49: load end:discretion left:414
    FALTAN 2 / CUENTE OTRA VEZ / LLAME AL JEFE
    strip: JEFE LLAMADO
"""

# In the spirit of those, where nothing is prescribed.
OURS = """
G7:
    BAC-07 / MESA CERRADA / pulse CONFIRMAR
B1, work: confirm
    INSPECCIONAR / CARAS Y DORSOS / CONFIRME y jefe
B12, work: confirm confirm confirm
    BARAJAR / 1 VEZ POR BARAJA / CONFIRMAR
B12, work: confirm confirm confirm confirm
    CORTAR / DORSOS AFUERA / CONFIRMAR
B4, work: confirm confirm confirm confirm confirm
    CARTA CORTE / CERCA DEL FONDO / CONFIRMAR
B12, work: confirm confirm confirm confirm confirm confirm
    CARGAR / ZAPATO Y TAPA / CONFIRMAR
B5, burn: load
    QUEMA / DESTAPE LA 1ª / y pásela
B5, burn: load 6H
    QUEMAR 6 / BOCA ABAJO / luego CONFIRMAR
B5, burn:30 sensors: load
    QUEMAR 30 / VAN 0 DE 30 / boca abajo
C1: load
    RONDA NUEVA / PULSE INICIO / abre apuestas
C1, opens:server: load
    ESPERE / EL SERVIDOR / abre apuestas
C1, opens:auto: load
    APUESTAS / ABIERTAS / no saque cartas
C1: load start
    APUESTAS / ABIERTAS / no saque cartas
C1, stages: load start tick 9H tick
    BANCA 1ª / SAQUE CARTA
    strip: NO MÁS APUESTAS
D1, opens:none confirms:none: load 9H 2S
    JUGADOR 2ª / SAQUE CARTA
D7: load start tick 9H 2S TD 3C
    GANA JUGADOR / J 9   B 5 / CONFIRME
D9, confirms:auto: load start tick 9H 2S TD 3C
    GANA JUGADOR / J 9   B 5 / ANUNCIE o LLAMAR
D9, confirms:auto: load start tick 2H 9S TD TC
    GANA BANCA / J 2   B 9 / ANUNCIE o LLAMAR
D9, confirms:auto: load start tick 3H 3S 4D 4C
    EMPATE A 7 / J 7   B 7 / ANUNCIE o LLAMAR
D9, confirms:auto: load start tick 9H 2S TD 3C call
    GANA JUGADOR / J 9   B 5 / CONFIRME
    strip: JEFE LLAMADO
B6: load start tick 2H cut 2S 7D 7C confirm
    CAMBIO / DE ZAPATO / cuente el resto
B6, one_more: load start tick 2H cut 2S 7D 7C confirm
    ÚLTIMA MANO / ANUNCIE: ÚLTIMA / antes de barajar
    strip: ÚLTIMA MANO
B7, shuffle_now: load cut
    CAMBIO / DE ZAPATO / cuente el resto
B9: load start end:discretion
    APUESTAS / ABIERTAS / no saque cartas
    strip: CAMBIO AL TERMINAR
I40, sensors: load end:discretion fault:I40:scanner
    CAMBIO / DE ZAPATO / saque y CONFIRME
    strip: SIN ESCÁNER
B11, sensors: load end:discretion
    CAMBIO / DE ZAPATO / saque y CONFIRME
I50, closes:natural: load start tick 9H 2S TD 3C confirm start
    APUESTAS / ABIERTAS / no saque cartas
    strip: ÚLT. NATURAL
I50, closes:natural: load start tick 9H 2S TD 3C confirm start tick 9S 2H TH 3S confirm
    RECOJA / DCHA. A IZQDA. / al descarte
    strip: SIN NATURAL
I50, closes:pair: load start tick 9H 2S TD 3C confirm start
    APUESTAS / ABIERTAS / no saque cartas
    strip: ÚLT. PAREJA
I50, closes:pair: load start tick 9H 2S TD 3C confirm start tick 9S 2H TH 3S confirm
    RECOJA / DCHA. A IZQDA. / al descarte
    strip: SIN PAREJA
I50, closes:six: load start tick 9H 2S TD 3C confirm start
    APUESTAS / ABIERTAS / no saque cartas
    strip: ÚLT. SEIS
I50, closes:six: load start tick 9H 2S TD 3C confirm start tick 9S 2H TH 3S confirm
    RECOJA / DCHA. A IZQDA. / al descarte
    strip: SIN SEIS
I50, closes:natural closes:pair: load start tick 9H 2S TD 3C confirm start
    APUESTAS / ABIERTAS / no saque cartas
    strip: ÚLT. NATURAL Y PAREJA
I50, closes:natural closes:pair: load start tick 9H 2S TD 3C confirm start tick 9S 2H TH 3S confirm
    RECOJA / DCHA. A IZQDA. / al descarte
    strip: SIN NATURAL NI PAREJA
I50, closes:pair closes:six: load start tick 9H 2S TD 3C confirm start
    APUESTAS / ABIERTAS / no saque cartas
    strip: ÚLT. PAREJA Y SEIS
I50, closes:pair closes:six: load start tick 9H 2S TD 3C confirm start tick 9S 2H TH 3S confirm
    RECOJA / DCHA. A IZQDA. / al descarte
    strip: SIN PAREJA NI SEIS
I50, closes:natural closes:pair closes:six: load start tick 9H 2S TD 3C confirm start
    APUESTAS / ABIERTAS / no saque cartas
    strip: ÚLT. NAT. PAR. Y SEIS
I50, closes:natural closes:pair closes:six: load start tick 9H 2S TD 3C confirm start tick 9S 2H TH 3S confirm
    RECOJA / DCHA. A IZQDA. / al descarte
    strip: SIN NAT. PAR. NI SEIS
I41: load fault:I41:exit_inner
    SENSOR INT. / TERMINE RONDA / llame al técnico
I41: load fault:I41:exit_outer
    SENSOR EXT. / TERMINE RONDA / llame al técnico
I41: load fault:I41:present
    SENSOR BOCA / TERMINE RONDA / llame al técnico
I41: load fault:I41:lid
    SENSOR TAPA / TERMINE RONDA / llame al técnico
I41: load fault:I41:chip
    SENSOR CHIP / TERMINE RONDA / llame al técnico
I41: load fault:I41:edges
    SENSOR SEÑAL / TERMINE RONDA / llame al técnico
DESIGN 6: load start fault:hand_scanner:scanner.hand
    APUESTAS / ABIERTAS / no saque cartas
    strip: SIN LECTOR DE MANO
I01, burn: load noread
    NO LEÍDA / PASE LA QUEMADA / otra vez
I01, rescan:hand: load start tick 2H 2S 3D noread
    NO LEÍDA / PASE BANCA 2ª / lector de mano
I01, rescan:none: load start tick 2H 2S 3D noread
    NO LEÍDA / BANCA 2ª / LLAME AL JEFE
    strip: JEFE LLAMADO
I01, burn rescan:none: load noread
    NO LEÍDA / LA QUEMADA / LLAME AL JEFE
    strip: JEFE LLAMADO
I02, sensors window:9: load start tick move 8H move KD move KS move move 2C
    ESPERE / FALTA LEER UNA / no saque cartas
I02, sensors rescan:hand: load start tick move 2H move move move
    NO SAQUE MÁS / PASE BANCA 1ª / lector de mano
I02, sensors rescan:none: load start tick move 2H move move move
    NO SAQUE MÁS / BANCA 1ª / LLAME AL JEFE
    strip: JEFE LLAMADO
I05, one_deck: load start tick TC TC
    SOBRA UN 10♣ / NO LA MUEVA / LLAME AL JEFE
    strip: JEFE LLAMADO
I02, sensors: load start tick move 2H move move move up 3S
    ALTO / NO SAQUE MÁS / PASE JUGADOR 2ª
I05, burn:30 one_deck: load confirm start tick 9H 2S TD 3C confirm start tick 9S 2H TH 3S confirm \
start tick 9D 2D TS 3H confirm start tick 6H 2C JH AC KH confirm start tick 7H AD QH AH KS confirm start tick 9C
    SOBRA CARTA / NO LA MUEVA / LLAME AL JEFE
    strip: JEFE LLAMADO
I05, one_deck: load start tick TC TC resolve:I05:void
    CAMBIO / DE ZAPATO / cuente el resto
    strip: ANULADA: SOBRANTE
I06: load start tick 2H alien resolve:I06:void
    ANULADA / RONDA ANULADA / MOTIVO AJENA
    strip: JEFE LLAMADO
I07: load start 2H resolve:I07:void
    ANULADA / RONDA ANULADA / MOTIVO ADELANTO
    strip: JEFE LLAMADO
I07: load start 2H resolve:I07:dummy
    BANCA 1ª / SAQUE CARTA
    strip: MANO LIBRE
I04: load start tick 2H again
    BANCA 1ª / SAQUE CARTA
    strip: Doble lectura
I08, sensors: load start tick move 2H unclear
    ALTO / ¿CUÁNTAS CARTAS? / no toque: jefe
    strip: JEFE LLAMADO
I08, sensors: load start tick move 2H two resolve:I08:void
    ANULADA / RONDA ANULADA / MOTIVO PEGADAS
    strip: JEFE LLAMADO
I17, sensors: load start tick move 2H back resolve:I17:void
    ANULADA / RONDA ANULADA / MOTIVO DEVUELTA
    strip: JEFE LLAMADO
I21, depth: load start tick 2H cut 2S
    JUGADOR 2ª / SAQUE CARTA
    strip: ÚLTIMA MANO
I21, depth: load start tick 9H 2S TD 3C cut
    GANA JUGADOR / J 9   B 5 / CONFIRME
    strip: RETIRE EL CORTE
I21, depth one_more: load start tick 2H cut 2S
    JUGADOR 2ª / SAQUE CARTA
    strip: CORTE FUERA DE LUGAR
I21, late burn:30 one_deck: load confirm start tick 9H
    BANCA 1ª / SAQUE CARTA
    strip: FALTA CARTA DE CORTE
I21, late one_more burn:30 one_deck: load confirm start tick 9H cut 2S
    JUGADOR 2ª / SAQUE CARTA
    strip: CORTE FUERA DE LUGAR
B7: load sighted
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: CORTE EN LA BOCA
I09: load start tick 9H 2S TD 3C 5D confirm
    CARTA DE MÁS / NO LA DESTAPE / LLAME AL JEFE
    strip: JEFE LLAMADO
I11: load start tick TH 2S QD 4C KS 5D confirm
    CARTA DE MÁS / NO LA DESTAPE / LLAME AL JEFE
    strip: JEFE LLAMADO
I09, sensors: load start tick move 9H move 2S move TD move 3C move resolve:I09:next confirm start tick
    JUGADOR 1ª / USE LA APARTADA / y pásela
    strip: NO MÁS APUESTAS
I13: load start tick 2H 2S 4D 2C confirm
    FALTA 3ª / DE BANCA / B 4: PIDE
I23: load start tick 2H empty tick resolve:I23:void
    CAMBIO / DE ZAPATO / cuente el resto
    strip: ANULADA: VACÍO
I25, burn sensors: load move 6H move move start
    QUEMAR 6 / VAN 2 DE 6 / SIGA o jefe
I25, burn sensors: load move 6H move move start move
    QUEMAR 6 / VAN 3 DE 6 / SIGA o jefe
I25, burn opens:none confirms:none: load 6H 2S 3S
    QUEMAR 6 / VAN 2 DE 6 / boca abajo
I31: load start void:x
    CANCELADA / RONDA CANCELADA / PULSE INICIO
I31: load start tick 2H void:una-carta-al-suelo
    ANULADA / RONDA ANULADA / MOTIVO una-cart…
I34: load start backlog
    APUESTAS / ABIERTAS / no saque cartas
    strip: PARE TRAS LA RONDA
I52: load nonsense
    RONDA NUEVA / PULSE INICIO / abre apuestas
I53: load start dispute:12:tie
    APUESTAS / ABIERTAS / no saque cartas
    strip: VERIFICAR TRAS RONDA
C7, limits: load
    ESPERE / SIN LÍMITES / no abra apuestas
C7, limits: load limits:10:5000
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: 10 - 5,000
C7, limits: limits:10.50:1234567
    BAC-07 / MESA CERRADA / pulse CONFIRMAR
    strip: 10.50 - 1,234,567
DESIGN 5, enrolment: load
    ESPERE / MESA SIN ALTA / no abra apuestas
DESIGN 5, enrolment: load enrol
    RONDA NUEVA / PULSE INICIO / abre apuestas
DESIGN 6: load pause:x
    PAUSA / PIDE EL CASINO / no abra apuestas
DESIGN 6: load start pause:x
    APUESTAS / ABIERTAS / no saque cartas
    strip: PAUSA TRAS LA RONDA
F2: load unseen
    ESPERE / SIN VÍDEO / no abra apuestas
F2: load start unseen
    APUESTAS / ABIERTAS / no saque cartas
    strip: SIN VÍDEO
DESIGN 5: load start tick ask_void:x
    ALTO / CASINO: ¿ANULAR? / LLAME AL JEFE
    strip: NO MÁS APUESTAS
C7, limits: load down
    ESPERE / SIN SERVIDOR / no abra apuestas
    strip: SIN LÍMITES
DESIGN 5, enrolment: load down
    ESPERE / SIN SERVIDOR / no abra apuestas
    strip: MESA SIN ALTA
I35: load start tick TH KS QD QC TC restart up
    ¿COINCIDE? / J 10♥ Q♦ 10♣ / B K♠ Q♣
I35: load start tick restart up
    ¿COINCIDE? / J - / B -
    strip: NO MÁS APUESTAS
I35: load start tick 2H restart up resolve:I35:differ
    ANULADA / RONDA ANULADA / MOTIVO REINICIO
I35, burn: load 6H restart up
    ¿COINCIDE? / QUEMAR 6 / VAN 0 DE 6
I35, burn: load restart up
    ¿COINCIDE? / ZAPATO NUEVO / ninguna fuera
I39: load opened shut
    ALTO / SE ABRIÓ LA TAPA / LLAME AL JEFE
    strip: JEFE LLAMADO
I39: load start tick 2H opened
    BANCA 1ª / SAQUE CARTA
    strip: SE ABRIÓ LA TAPA
I41: load fault:I41:cut
    SENSOR CORTE / TERMINE RONDA / llame al técnico
I41: load start fault:I41:exit_inner
    APUESTAS / ABIERTAS / no saque cartas
    strip: SENSOR INT.
I47: load start tick 2H hold
    JUGADOR 1ª / PASE OTRA VEZ / la misma carta
I49: load end:discretion left:417
    SOBRAN 1 / CUENTE OTRA VEZ / LLAME AL JEFE
    strip: JEFE LLAMADO
I50, closes:natural closes:six: load start tick 9H 2S TD 3C confirm start
    APUESTAS / ABIERTAS / no saque cartas
    strip: ÚLT. NATURAL Y SEIS
I50, closes:natural closes:six: load start tick 9H 2S TD 3C confirm start tick 9S 2H TH 3S confirm
    RECOJA / DCHA. A IZQDA. / al descarte
    strip: SIN NATURAL NI SEIS
I16: load start tick 2H report:I16
    ALTO / CARTA CAÍDA / no recoja: jefe
    strip: JEFE LLAMADO
I16: load start tick 2H report:I16 resolve:I16:void
    ANULADA / RONDA ANULADA / MOTIVO CAÍDA
    strip: JEFE LLAMADO
I22, sensors: load start tick move 2H beams 2S
    ¿CORTE? / CONFIRMAR = SÍ / INICIO = NO
    strip: ÚLTIMA MANO
F2: load start down
    APUESTAS / ABIERTAS / no saque cartas
    strip: SIN SERVIDOR
F2, allow: load down
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: SIN SERVIDOR
F2, work: confirm down
    INSPECCIONAR / CARAS Y DORSOS / CONFIRME y jefe
    strip: SIN SERVIDOR
F2, allow: load down start
    APUESTAS / ABIERTAS / no saque cartas
    strip: SIN SERVIDOR
DESIGN 2: load fault:disk:journal
    ALTO: DISCO / NO ABRA APUESTAS / llame al técnico
DESIGN 2: load start fault:disk:journal
    APUESTAS / ABIERTAS / no saque cartas
    strip: FALLO DE DISCO
DESIGN 5: load fault:feed_refused:mqtt
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: ENVÍO RECHAZADO
DESIGN 5: load fault:feed_file:file
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: FALLO DE ARCHIVO
DESIGN 2: load fault:lamps:lamps
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: FALLO: LÁMPARAS
DESIGN 2: load start fault:buzzer:buzzer
    APUESTAS / ABIERTAS / no saque cartas
    strip: FALLO: ZUMBADOR
DESIGN 2: load fault:button:confirm
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: FALLO: CONFIRMAR
DESIGN 2: load fault:button:start
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: FALLO: INICIO
DESIGN 2: load fault:button:call
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: FALLO: LLAMAR
DESIGN 2: load fault:button:key
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: FALLO: LLAVE
DESIGN 2: load fault:display:display
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: FALLO: PANTALLA
DESIGN 6: load fault:other:nose call
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: FALLO: nose
DESIGN 1: load key call
    RONDA NUEVA / PULSE INICIO / abre apuestas
    strip: JEFE LLAMADO
DESIGN 1: load start key
    APUESTAS / ABIERTAS / no saque cartas
    strip: LLAVE PUESTA
I42: load start tick noread resolve:I01:manual:8H
    BANCA 1ª / SAQUE CARTA
    strip: MANUAL
"""


class Heard(Words):
    """Words that remember which of them were asked for."""

    def __init__(self, language: str) -> None:
        self.heard: set[str] = set()
        super().__init__(language)
        self.heard.clear()

    def word(self, key: str) -> str:
        words = super().word(key)
        self.heard.add(key)
        return words


class Scenario(NamedTuple):
    name: str
    options: str
    script: str
    panel: str


def scenarios(text: str) -> Iterator[Scenario]:
    for block in re.split(r"\n(?=\S)", text.strip()):
        name, prompt, *strip = [line.strip() for line in block.splitlines()]
        head, _, script = (name + " ").partition(": ")
        yield Scenario(name, head.partition(", ")[2], script, " | ".join([prompt, *strip]))


SCENARIOS = tuple(scenarios(PRESCRIBED + OURS))


def as_scenario(panel: Panel21) -> str:
    prompt = " / ".join(filter(None, (panel.headline, *panel.lines)))
    return " | ".join([prompt, f"strip: {panel.strip}"] if panel.strip else [prompt])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.name for scenario in SCENARIOS])
def test_prompt(scenario: Scenario) -> None:
    state = played(scenario.options, scenario.script).state
    assert as_scenario(Words("es").panel(view(state), TABLE)) == scenario.panel


# --- everything that the table can show --------------------------------------------------------------


@cache
def states() -> tuple[State, ...]:
    """What the scenarios pass through."""
    tables = [played(scenario.options, scenario.script) for scenario in SCENARIOS]
    return tuple(state for table in tables for state in table.seen)


@cache
def views() -> tuple[View, ...]:
    return (*map(view, states()), *(of_disk(view(states()[-1]), key) for key in ("wait", "stop")))


def texts(shown: View) -> Iterator[tuple[int, Text]]:
    """Each text of a view and the room that it has."""
    yield 12, shown.prompt.headline
    yield from ((16, text) for text in shown.prompt.lines)
    yield from ((21, text) for text in shown.prompt.strip)


def placeholders(words: str) -> set[str]:
    return set(re.findall(r"{(.*?)}", words))


WRITTEN = {"reason", "part"}  # by people and devices: what has no room is cut


def faults(words: Words, shown: View) -> list[str]:
    """Texts that do not fit; a key without words raises."""
    found = [] if len(shown.prompt.lines) <= 2 else ["more than two lines"]
    for room, text in texts(shown):
        said = words.text(Text(text.key, text.values | {"table": TABLE}))
        if len(said) > room and not WRITTEN & placeholders(words.word(text.key)):
            found.append(f"{text.key}: {said}")
    return found


def test_states_are_all_kinds() -> None:
    codes = {c.code for state in states() for c in conditions.standing(state)}
    assert codes >= set(ROWS)
    assert {state.phase for state in states()} == set(Phase)
    assert {state.step for state in states()} >= set(STEPS) - {"burn"}  # it follows `load`: its own phase
    assert {state.procedure.confirm_result for state in states()} == set(Confirms)
    assert {state.procedure.offline_rounds for state in states()} == {False, True}
    assert any(state.round and state.round.dummy for state in states())
    assert {state.round.betting.stage for state in states() if state.round and state.round.betting} >= {1, 2}


def test_every_view_has_words_that_fit() -> None:
    assert [fault for shown, words in product(views(), EVERY) for fault in faults(words, shown)] == []


def test_every_reason_of_the_core_has_words() -> None:
    words = [word for scenario in SCENARIOS for word in scenario.script.split()]
    typed = {word.removeprefix("void:") for word in words if word.startswith("void:")}
    told = {c.detail["reason"] for state in states() for c in state.conditions if c.code == "I31"}
    assert {key.removeprefix("reason.") for key in source("es") if key.startswith("reason.")} == told - typed


NIGHT = """
    two unclear back again sighted opened shut fault:I41:cut mended:I41:cut resolve:I08:order resolve:I08:void
    resolve:I08:one_card resolve:I08:two_cards resolve:I17:out resolve:I17:void resolve:I21:noted resolve:I39:closed
    2H 9S TD 7C 7C move move cut noread alien empty full start start confirm confirm hold call close load
    tick tick tick up down receipt backlog drained restart void:x left:200 end:discretion end:day_end
    fault:disk:journal mended:disk:journal fault:I40:scanner mended:I40:scanner fault:lamps:lamps
    report:I16 resolve:I16:continue resolve:I16:void beams resolve:I22:yes resolve:I22:no
    resolve:I01:manual:8D resolve:I02:manual:8D resolve:I05:finish resolve:I06:remove resolve:I07:burn resolve:I07:dummy
    resolve:I07:use resolve:I07:void resolve:I09:next resolve:I09:burn resolve:I25:accept resolve:I35:match
    resolve:I35:differ resolve:I49:accept
"""


@given(
    st.lists(st.sampled_from(sorted(OPTIONS)), max_size=4, unique=True).map(" ".join),
    st.lists(st.sampled_from(NIGHT.split()), max_size=40),
)
def test_every_view_of_any_night_has_words_that_fit(options: str, script: list[str]) -> None:
    table = Table(options)
    for word in ["load", *script]:
        try:
            table.do(word)
        except Refused as refused:
            spoken(refused.key, refused.values)
    for shown, words in product(map(view, table.seen), EVERY):
        assert faults(words, shown) == []


# --- answers to people -------------------------------------------------------------------------------


def refusals() -> set[tuple[str, tuple[str, ...]]]:
    """Every `Refused("key", name=...)` of the program: its key and the names of its values."""
    found = set()
    for path in ROOT.glob("controller/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refused":
                (key,) = node.args
                assert isinstance(key, ast.Constant), f"{path}: {ast.unparse(node)}"
                found.add((str(key.value), tuple(str(word.arg) for word in node.keywords)))
    return found


CHOICES = sorted({choice for row in ROWS.values() for choice in row.exits})
VALUES = {  # the widest that each value of a refusal may be
    "code": ("I07", "offline"),
    "choices": (" ".join(CHOICES), "-"),
    "who": ("auto", "server", "none"),
    "step": STEPS[: STEPS.index("load")],
    "reasons": (" ".join(END_REASONS),),
    "part": PARTS,
    "codes": (" ".join(REPORTED),),
}


def spoken(key: str, values: dict[str, str]) -> list[str]:
    """The answer in every language; without words for it this raises."""
    return [words.text(Text(f"refused.{key}", values)) for words in EVERY]


@pytest.mark.parametrize(("key", "names"), sorted(refusals()))
def test_refusal_is_a_sentence(key: str, names: tuple[str, ...]) -> None:
    for values in product(*(VALUES[name] for name in names)):
        for sentence in spoken(key, dict(zip(names, values, strict=True))):
            assert re.fullmatch(r"[¿\w].{20,}\.", sentence), sentence
            assert "{" not in sentence


def test_refusal_names_the_choices_and_what_they_do() -> None:
    said = Words("es").refused("no_such_choice", {"code": "I09", "choices": "burn next"})
    assert said.endswith("Elija entre: burn (quemar la carta), next (primera carta de la ronda siguiente).")


# --- the catalogues ----------------------------------------------------------------------------------


@cache
def source(language: str) -> dict[str, str]:
    """The keys and words of a catalogue's source."""
    with (LOCALE / language / "LC_MESSAGES" / "panel.po").open("rb") as file:
        catalogue = read_po(file, abort_invalid=True)
    assert not [message.id for message in catalogue if message.fuzzy and message.id]
    return {str(message.id): str(message.string) for message in catalogue if message.id}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_is_used_and_every_use_has_words(language: str) -> None:
    words = Heard(language)
    for shown in views():
        words.panel(shown, TABLE)
    for key, names in refusals():
        for values in product(*(VALUES[name] for name in names)):
            words.refused(key, dict(zip(names, values, strict=True)))
    assert words.heard | {*NO_PROMPT, NO_NOTICE, NO_ANSWER} == set(source(language))
    assert {*NO_PROMPT, NO_NOTICE, NO_ANSWER}.isdisjoint(words.heard)


def test_languages_have_the_same_keys_with_the_same_values() -> None:
    assert languages_of() == LANGUAGES
    en, es = map(source, LANGUAGES)
    assert {key: placeholders(en[key]) for key in en} == {key: placeholders(es[key]) for key in es}


@pytest.mark.parametrize("language", LANGUAGES)
def test_compiled_words_are_those_of_the_source(language: str) -> None:
    words = Words(language)
    assert {key: words.word(key) for key in source(language)} == source(language)


HANDS = ("TH TD TC", "-")
POINTS = (*map(str, range(10)), "-")
CLOSED = {  # the widest that each value of a prompt may be
    "slot": (*Slot, "burn"),
    "card": DECK,
    "third": POINTS[:10],
    "of": ("30", "?"),
    "done": ("30", "0"),
    "missing": ("624",),
    "extra": ("99999",),
    "table": ("A" * 12,),
    "reason": tuple(key.removeprefix("reason.") for key in source("es") if key.startswith("reason.")),
    "part": ("head-exit",),
    "key": ("x",),
    "least": ("9,999,999", "99,999.99"),
    "most": ("9,999,999", "99,999.99"),
}


SENSORS = (*map(str, Line), "edges", "chip")  # the parts of I41


def room(key: str) -> int | None:
    """How wide the words of a key may be; None where they go to no panel."""
    if key.startswith("strip.") or key == NO_NOTICE:
        return 21
    return {"headline": 12, "line1": 16, "line2": 16}.get(key.rpartition(".")[2])


@pytest.mark.parametrize("language", LANGUAGES)
def test_prompts_fit_with_their_widest_values(language: str) -> None:
    words = Words(language)
    for key, written in source(language).items():
        names = sorted(placeholders(written))
        hands = dict.fromkeys(("player", "banker"), HANDS if key.startswith("I35.") else POINTS)
        hands |= {"part": SENSORS} if key.startswith("I41.") else {}
        for values in product(*((CLOSED | hands)[name] for name in names)) if room(key) else ():
            said = words.text(Text(key, dict(zip(names, map(str, values), strict=True))))
            assert len(said) <= (room(key) or 0), (key, said)


def test_idle_line_serves_as_a_headline() -> None:
    assert all(len(source(language)["closed.line1"]) <= 12 for language in LANGUAGES)


def wide(character: str) -> bool:
    """Whether a character takes other than one column, or none that a font has."""
    strange = unicodedata.category(character) in {"Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Me", "Mc", "Zl", "Zp"}
    return strange or unicodedata.east_asian_width(character) in "WF"


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_are_composed_and_of_one_column(language: str) -> None:
    for key, written in source(language).items():
        assert written == unicodedata.normalize("NFC", written), key
        assert not any(map(wide, written)), key
        assert written.strip() or written == " ", f"{key}: a line meant to be blank is one space"


ANNOUNCED = {"no_more": "NO MÁS APUESTAS", "ready.last": "ÚLTIMA MANO ANUNCIE: ÚLTIMA antes de barajar"}


@pytest.mark.parametrize(("key", "words"), list(ANNOUNCED.items()))
def test_announcements_are_verbatim(key: str, words: str) -> None:
    """C1 and B6: "No más apuestas", "Última mano antes de barajar"."""
    said = " ".join(source("es")[f"{key}.{part}"] for part in ("headline", "line1", "line2"))
    assert said.startswith(words)


# --- limits, whatever comes --------------------------------------------------------------------------

anything = st.text(max_size=30)
some_text = st.builds(
    Text,
    st.one_of(st.sampled_from(sorted(source("es"))), anything),
    st.dictionaries(st.one_of(st.sampled_from(sorted(CLOSED)), anything), anything, max_size=4),
)
some_view = st.builds(
    View,
    st.sampled_from(Phase),
    st.builds(
        Prompt, some_text, st.lists(some_text, max_size=2).map(tuple), st.lists(some_text, max_size=5).map(tuple)
    ),
)


@given(st.sampled_from(LANGUAGES), some_view, anything)
def test_panel_never_exceeds_its_limits(language: str, shown: View, table: str) -> None:
    panel = Words(language).panel(shown, table)
    assert len(panel.strip) <= 21
    assert len(panel.headline) <= 12
    assert len(panel.lines) == 2
    assert all(len(line) <= 16 for line in panel.lines)
    for part in (panel.strip, panel.headline, *panel.lines):
        assert part == unicodedata.normalize("NFC", part)
        assert not any(map(wide, part))


def shown(*strip: Text, headline: str = "betting.headline", phase: Phase = Phase.BETTING) -> View:
    lines = tuple(Text(headline.replace("headline", line)) for line in ("line1", "line2"))
    return View(phase, Prompt(Text(headline), lines, strip))


@pytest.mark.parametrize(
    ("keys", "strip"),
    [
        ("", ""),
        ("called", "JEFE LLAMADO"),
        ("I32 last", "SIN RED · ÚLTIMA MANO"),
        ("I32 offline last", "SIN RED · ÚLTIMA MANO"),  # what does not fit makes room for what does
        ("no_more called", "NO MÁS APUESTAS"),
        ("last last", "ÚLTIMA MANO"),
        ("end last I32", "CAMBIO AL TERMINAR"),
    ],
)
def test_strip_has_the_first_notice_and_as_many_as_fit(keys: str, strip: str) -> None:
    notices = [Text(f"strip.{key}") for key in keys.split()]
    assert Words("es").panel(shown(*notices), TABLE).strip == strip


@pytest.mark.parametrize(
    ("part", "strip"),
    [
        ("pantalla", "FALLO: pantalla"),
        ("a-part-with-a-very-long-name", "FALLO: a-part-with-a…"),
        ("n\u0303 \u4e2d\n\U0001f600", "FALLO: ñ ???"),
    ],
)
def test_what_devices_write_is_cut_and_cleaned(part: str, strip: str) -> None:
    assert Words("es").panel(shown(Text("strip.fault", {"part": part})), TABLE).strip == strip


@pytest.mark.parametrize(
    ("table", "panel"),
    [
        ("7", "7 / MESA CERRADA / pulse CONFIRMAR"),
        ("SALA-PRIV-07", "SALA-PRIV-07 / MESA CERRADA / pulse CONFIRMAR"),
        ("BACCARAT-PRIVADA-SEGUNDA-MESA-07", "MESA CERRADA / BACCARAT-PRIVADA / -SEGUNDA-MESA-07"),
    ],
)
def test_idle_screen_shows_the_whole_number(table: str, panel: str) -> None:
    assert as_scenario(Words("es").panel(shown(headline="closed.headline", phase=Phase.CLOSED), table)) == panel


# --- faults of the installation ----------------------------------------------------------------------


@pytest.mark.parametrize("language", ["fr", "", "../es", "ES"])
def test_a_language_without_words_is_an_error_that_names_the_others(language: str) -> None:
    with pytest.raises(LanguageError, match="en, es"):
        Words(language)


def installed(folder: Path, **words: str) -> Path:
    """A locale folder with these words alone."""
    catalogue, compiled = Catalog("es"), io.BytesIO()
    for key, said in words.items():
        catalogue.add(key.replace("_", "."), said)
    write_mo(compiled, catalogue)
    path = folder / "es" / "LC_MESSAGES" / "panel.mo"
    path.parent.mkdir(parents=True)
    path.write_bytes(compiled.getvalue())
    return folder


def test_without_any_words_there_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(LanguageError, match="not whole"):
        Words("es", tmp_path)
    with pytest.raises(MissingWordsError, match=r"missing\.headline"):
        Words("es", installed(tmp_path, betting_headline="APUESTAS"))


def test_a_key_without_words_is_said_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    words = Words("es")
    with pytest.raises(MissingWordsError, match=r"I99\.headline"):
        words.text(Text("I99.headline"))
    with pytest.raises(MissingWordsError, match=r"I01\.line1 .* slot"):
        words.text(Text("I01.line1"))
    for _ in range(3):
        assert (
            as_scenario(words.panel(shown(headline="I99.headline"), TABLE))
            == "SIN TEXTO / I99.headline / llame al técnico"
        )
        assert words.panel(shown(Text("strip.I99")), TABLE).strip == "AVISO SIN TEXTO"
        assert "no_sense" in words.refused("no_sense", {})
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert [message.split()[3] for message in logged] == ["I99.headline", "strip.I99", "refused.no_sense"]


def test_words_need_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import controller.panel; new = set(sys.modules) - before;"
        "print(*sorted({name.split('.')[0] for name in new} - sys.stdlib_module_names), 'asyncio' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.split() == ["controller", "False"]
