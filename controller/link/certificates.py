"""What it means that one side of TLS does not accept the other's certificate, in words for the technician.

Numbers are OpenSSL's X509_V_ERR_* (openssl-verification-options(1)), alerts those of RFC 8446, section 6.2.
"""

import re

_TIME = {
    9: "is not valid yet",
    10: "has expired",
}
_OURS = {  # what we do not accept of the broker's
    18: "is signed by nobody but itself: casino.mqtt.tls.ca must name the authority that signed it",
    19: "is signed by an authority that casino.mqtt.tls.ca does not hold: put the casino's authority there",
    20: "is signed by an authority that casino.mqtt.tls.ca does not hold: put the casino's authority there",
    21: "comes without its chain, and casino.mqtt.tls.ca does not hold who signed it: put the casino's authority there",
    62: "is for another name: correct casino.mqtt.host, or let the casino issue one for it",
    64: "is for another address: correct casino.mqtt.host, or let the casino issue one for it",
}
_THEIRS = {  # what the broker does not accept of ours
    "certificate required": "asks for this table's certificate: set casino.mqtt.tls.cert and key",
    "certificate revoked": "says that this table's certificate is revoked: let the casino issue another",
    "certificate expired": "says that this table's certificate has expired: let the casino issue another",
    "unknown ca": "does not know who signed this table's certificate: let the casino's authority issue it",
    "bad certificate": "does not accept this table's certificate: see the broker's log",
    "certificate unknown": "does not accept this table's certificate: see the broker's log",
    "access denied": "does not let this table's certificate in: see the broker's log",
    "handshake failure": "agrees on no TLS with this table: without casino.mqtt.tls.cert it may want a certificate",
    "protocol version": "speaks no TLS 1.2 or newer: configure the broker",
}


def not_accepted(where: str, code: int, said: str, *, clock: str) -> str:
    """Why the certificate of the broker at `where` is not accepted. `clock` is what ours says if nobody has set it."""
    what = f"the certificate of {where}"
    if code not in _TIME:
        return f"{what} {_OURS.get(code, f'is not accepted: {said}: check casino.mqtt.tls.ca')}"
    if clock:
        return f"{what} {_TIME[code]} by this table's clock, which nobody has set: it says {clock}; set it"
    return f"{what} {_TIME[code]}: let the casino renew it"


def hung_up(where: str, *, shown: bool) -> str:
    """What it may mean that the broker ends TLS without a word, where we `shown` a certificate or none."""
    if shown:
        return f"{where} ends TLS without a word: it may not accept this table's certificate: see the broker's log"
    return f"{where} ends TLS without a word: it may want this table's certificate: set casino.mqtt.tls.cert and key"


def alert(where: str, said: str) -> str | None:
    """What the broker at `where` means by an alert in OpenSSL's words; None where they tell of none."""
    found = re.search(r"alert[ _]([a-z_ ]+[a-z])", said.lower())
    if found is None:
        return None
    name = found[1].replace("_", " ")
    return f"{where} {_THEIRS.get(name, f'ends TLS: {name}: see the log of the broker')}"
