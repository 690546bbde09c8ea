"""Every refusal of a certificate in words that say what to do: OpenSSL's numbers, and the alerts of RFC 8446."""

import pytest

from controller.link.certificates import alert, hung_up, not_accepted

WHERE = "mq.casino:8883"


@pytest.mark.parametrize(
    ("code", "clock", "words"),
    [
        (9, "", "the certificate of mq.casino:8883 is not valid yet: let the casino renew it"),
        (9, "1970-01-01 00:02 UTC", "not valid yet by this table's clock, which nobody has set: it says 1970-01-01"),
        (10, "", "the certificate of mq.casino:8883 has expired: let the casino renew it"),
        (10, "2099-01-01 00:02 UTC", "has expired by this table's clock, which nobody has set: it says 2099"),
        (18, "", "is signed by nobody but itself"),
        (19, "x", "is signed by an authority that casino.mqtt.tls.ca does not hold"),
        (20, "", "is signed by an authority that casino.mqtt.tls.ca does not hold"),
        (21, "", "comes without its chain"),
        (62, "", "is for another name: correct casino.mqtt.host"),
        (64, "", "is for another address: correct casino.mqtt.host"),
        (24, "", "is not accepted: invalid CA certificate: check casino.mqtt.tls.ca"),
    ],
)
def test_a_certificate_that_we_do_not_accept(code: int, clock: str, words: str) -> None:
    assert words in not_accepted(WHERE, code, "invalid CA certificate", clock=clock)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "asks for this table's certificate: set casino.mqtt.tls.cert and key"),
        ("SSLV3_ALERT_CERTIFICATE_REVOKED", "says that this table's certificate is revoked"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "says that this table's certificate has expired"),
        ("TLSV1_ALERT_UNKNOWN_CA", "does not know who signed this table's certificate"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "does not accept this table's certificate"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "agrees on no TLS with this table"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "speaks no TLS 1.2 or newer"),
        ("TLSV1_ALERT_INTERNAL_ERROR", "ends TLS: internal error: see the log of the broker"),
        ("failed to receive on socket: [SSL: X] tlsv13 alert certificate required (_ssl.c:2576)", "asks for this"),
    ],
)
def test_a_certificate_of_ours_that_the_broker_does_not_accept(said: str, words: str) -> None:
    told = alert(WHERE, said)
    assert told is not None
    assert told.startswith("mq.casino:8883 ")
    assert words in told


@pytest.mark.parametrize("said", ["", "WRONG_VERSION_NUMBER", "[Errno 104] Connection reset by peer"])
def test_what_tells_of_no_alert(said: str) -> None:
    assert alert(WHERE, said) is None


def test_a_broker_that_says_nothing_may_mean_our_certificate() -> None:
    assert "may want this table's certificate: set casino.mqtt.tls.cert" in hung_up(WHERE, shown=False)
    assert "may not accept this table's certificate" in hung_up(WHERE, shown=True)
