#!/usr/bin/env python3
"""Makes jwt_public_vectors.h with PyJWT: tokens of RS256, ES256 and EdDSA, good ones and forged ones.

    python3 -m venv V && V/bin/pip install 'pyjwt[crypto]' && V/bin/python jwt_public_vectors.py > jwt_public_vectors.h

Run once; new keys each time, so the private ones are nowhere. Time of the tests: 2026-03-21T09:00:00Z.
"""
import base64
import hashlib
import hmac
import json
import jwt
import cryptography.hazmat.primitives.serialization as ser
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, ed448, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

SECRET = bytes(range(32))
NOW = 1774083600
CLAIMS = {"sub": "u1", "exp": NOW + 3600, "iss": "issuer", "aud": "belfry"}
LONG = dict(CLAIMS, exp=4102444800)
P256_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
ED_L = 2**252 + 27742317777372353535851937790883648493


def b64(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def pem(key, fmt=ser.PublicFormat.SubjectPublicKeyInfo):
    return key.public_key().public_bytes(ser.Encoding.PEM, fmt)


def private(key):
    return key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption())


def text(alg, kid, header=None, claims=CLAIMS):
    head = {"alg": alg, "typ": "JWT", "kid": kid}
    head.update(header or {})
    head = {k: v for k, v in head.items() if v is not None}
    return b64(json.dumps(head).encode()) + "." + b64(json.dumps(claims).encode())


def hs(secret, alg, kid):
    t = text(alg, kid)
    return t + "." + b64(hmac.new(secret, t.encode(), hashlib.sha256).digest())


def with_signature(token, change):
    head, body, signature = token.split(".")
    return head + "." + body + "." + b64(change(unb64(signature)))


r, r2, r3 = (rsa.generate_private_key(65537, n) for n in (2048, 2048, 3072))
e, e2 = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
e384, k1 = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP256K1())
d, d2, d448 = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate(), ed448.Ed448PrivateKey.generate()
KEYS = {"r": ("RS256", r), "e": ("ES256", e), "d": ("EdDSA", d)}


def make(key, alg, kid, claims=CLAIMS, **header):
    return jwt.encode(claims, key, algorithm=alg, headers=dict({"kid": kid}, **header))


good, bad = [], []
for kid, (alg, key) in KEYS.items():
    good.append((f"{alg}", make(key, alg, kid)))
    good.append((f"{alg}, typ at+jwt", make(key, alg, kid, typ="at+jwt")))
    good.append((f"{alg}, typ application/at+JWT", make(key, alg, kid, typ="application/at+JWT")))
    good.append((f"{alg}, no typ", make(key, alg, kid, typ=None)))
    good.append((f"{alg}, audience in a list", make(key, alg, kid, dict(CLAIMS, aud=["x", "belfry"]))))
good.append(("RS256 of 3072 bits", make(r3, "RS256", "r3")))
good.append(("HS256", make(SECRET, "HS256", "h")))

# libjwt's three: HMAC with the public key's PEM, none, no exp.
for kid, (alg, key) in KEYS.items():
    spki = pem(key)
    der = key.public_key().public_bytes(ser.Encoding.DER, ser.PublicFormat.SubjectPublicKeyInfo)
    for what, secret in (("PEM", spki), ("PEM without its last newline", spki.rstrip()), ("DER", der), ("empty key", b"")):
        for told in ("HS256", alg):
            bad.append((f"{alg} key, header {told}, HMAC with {what}", hs(secret, told, kid)))
    for told in ("none", "None", "", alg):
        bad.append((f"{alg} key, header {told!r}, unsigned", text(told, kid) + "."))
    bad.append((f"{alg} without exp", make(key, alg, kid, {k: v for k, v in CLAIMS.items() if k != "exp"})))
    bad.append((f"{alg} alg missing", text(None, kid) + "." + make(key, alg, kid).split(".")[2]))
# Confusion, between all keys: signed well, by the wrong key or under the wrong name.
every = dict(KEYS, h=("HS256", SECRET))
for kid in every:
    for alg, key in every.values():
        if every[kid][0] != alg:
            bad.append((f"kid of {every[kid][0]}, signed with {alg}", make(key, alg, kid)))
            own = text(every[kid][0], kid)
            other = jwt.get_algorithm_by_name(alg)
            bad.append((f"kid and alg of {every[kid][0]}, signed with {alg}",
                        own + "." + b64(other.sign(own.encode(), other.prepare_key(key)))))
for alg in ("RS384", "RS512", "PS256", "PS384", "PS512"):
    bad.append((f"{alg} with the RS256 key", make(r, alg, "r")))
own = text("RS256", "r")
pss = jwt.get_algorithm_by_name("PS256")
bad.append(("RS256 in name, PSS in truth", own + "." + b64(pss.sign(own.encode(), r))))
rs512 = jwt.get_algorithm_by_name("RS512")
bad.append(("RS256 in name, SHA-512 in truth", own + "." + b64(rs512.sign(own.encode(), r))))
bad += [("another RSA key", make(r2, "RS256", "r")), ("another RSA key, longer", make(r3, "RS256", "r")),
        ("another P-256 key", make(e2, "ES256", "e")), ("another Ed25519 key", make(d2, "EdDSA", "d")),
        ("ES384", make(e384, "ES384", "e")), ("Ed448", make(d448, "EdDSA", "d"))]
own = text("ES256", "e")
der = e.sign(own.encode(), ec.ECDSA(hashes.SHA256()))
rr, ss = decode_dss_signature(der)
raw = rr.to_bytes(32, "big") + ss.to_bytes(32, "big")
n = P256_N.to_bytes(32, "big")
good.append(("ES256 by hand", own + "." + b64(raw)))
for what, signature in (("in DER", der), ("zeros", bytes(64)), ("r and s of n", n + n), ("r zero", bytes(32) + raw[32:]),
                        ("s zero", raw[:32] + bytes(32)), ("s of n", raw[:32] + n), ("r of n", n + raw[32:]),
                        ("63 bytes", raw[:63]), ("65 bytes", raw + b"\0"), ("65 bytes, zero first", b"\0" + raw),
                        ("r and s changed over", raw[32:] + raw[:32]),
                        ("96 bytes", rr.to_bytes(48, "big") + ss.to_bytes(48, "big")), ("none", b"")):
    bad.append((f"ES256 signature {what}", own + "." + b64(signature)))
token = make(d, "EdDSA", "d")
bad.append(("EdDSA s + L", with_signature(
    token, lambda x: x[:32] + (int.from_bytes(x[32:], "little") + ED_L).to_bytes(32, "little"))))
bad.append(("EdDSA zeros", with_signature(token, lambda x: bytes(64))))
bad.append(("EdDSA one byte more", with_signature(token, lambda x: x + b"\0")))
token = make(r, "RS256", "r")
bad.append(("RS256 zero first", with_signature(token, lambda x: b"\0" + x)))
bad.append(("RS256 one byte more", with_signature(token, lambda x: x + b"\0")))
bad.append(("RS256 zeros", with_signature(token, lambda x: bytes(256))))
bad.append(("RS256 plus n", with_signature(
    token, lambda x: (int.from_bytes(x, "big") + r.public_key().public_numbers().n).to_bytes(257, "big"))))
bad.append(("RS256 of 1,100 bytes", with_signature(token, lambda x: bytes(1100))))
# Headers that bring what is not wanted, each signed well.
jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(r2.public_key()))
for name, value in (("jku", "https://evil.example/keys"), ("x5u", "https://evil.example/c"), ("x5c", ["AAAA"]), ("jwk", jwk),
                    ("crit", ["exp"]), ("crit", []), ("crit", None), ("b64", False), ("zip", "DEF"), ("enc", "A128GCM"), ("typ", "logout+jwt"),
                    ("typ", "secevent+jwt"), ("typ", ""), ("typ", 1), ("kid", 1), ("kid", ["r"]), ("kid", ""),
                    ("kid", "R"), ("kid", "r\0"), ("kid", "../../dev/null"), ("alg", ["RS256"]), ("alg", 1), ("alg", "rs256"),
                    ("alg", "RS256\0"), ("alg", "RS256 ")):
    head = {"alg": "RS256", "typ": "JWT", "kid": "r"}
    head[name] = value
    t = b64(json.dumps(head).encode()) + "." + b64(json.dumps(CLAIMS).encode())
    bad.append((f"header {name} {json.dumps(value)[:40]}", t + "." + b64(jwt.get_algorithm_by_name("RS256").sign(t.encode(), r))))
bad.append(("no kid", jwt.encode(CLAIMS, r, algorithm="RS256")))
expired = [(f"{alg} expired", make(key, alg, kid, dict(CLAIMS, exp=NOW - 31))) for kid, (alg, key) in KEYS.items()]

long = [("rsa", make(r, "RS256", "r", LONG)), ("rsa_second", make(r2, "RS256", "r2", LONG)),
        ("rsa_second_as_first", make(r2, "RS256", "r", LONG)), ("p256", make(e, "ES256", "e", LONG)),
        ("ed25519", make(d, "EdDSA", "d", LONG)), ("rsa_hmac", None)]
t = text("HS256", "r", claims=LONG)
long[-1] = ("rsa_hmac", t + "." + b64(hmac.new(pem(r), t.encode(), hashlib.sha256).digest()))

sabotaged = r.public_key().public_numbers()
e1 = rsa.generate_private_key(65537, 2048)


def spki_of_e1():
    """An exponent of 1: every text is its own signature. No library makes it: patched into the DER."""
    der = e1.public_key().public_bytes(ser.Encoding.DER, ser.PublicFormat.SubjectPublicKeyInfo)
    assert der.endswith(b"\x02\x03\x01\x00\x01")
    der = der[:-3] + b"\x00\x00\x01"
    return b"-----BEGIN PUBLIC KEY-----\n" + base64.encodebytes(der) + b"-----END PUBLIC KEY-----\n"


def damaged():
    lines = pem(r).split(b"\n")
    lines[3] = lines[3][::-1]
    return b"\n".join(lines[:4] + lines[5:])


files = [("RS256", "private key", private(r3), "pkey -in FILE -pubout"),
         ("ES256", "private key", e2.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.TraditionalOpenSSL, ser.NoEncryption()), "private key"),
         ("EdDSA", "private key", private(d2), "private key"),
         ("EdDSA", "encrypted private key", d2.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.BestAvailableEncryption(b"x")), "private key"),
         ("RS256", "1024 bits", pem(rsa.generate_private_key(65537, 1024)), "2048"),
         ("RS256", "2047 bits", pem(rsa.generate_private_key(65537, 2047)), "2048"),
         ("RS256", "PKCS#1", pem(r, ser.PublicFormat.PKCS1), "PKCS#1"),
         ("RS256", "exponent 1", spki_of_e1(), "not sound"),
         ("RS256", "damaged", damaged(), "damaged"),
         ("RS256", "several", pem(r) + pem(r2), "several"),
         ("RS256", "P-256", pem(e), "RSA"), ("RS256", "Ed25519", pem(d), "RSA"),
         ("ES256", "RSA", pem(r), "P-256"), ("ES256", "P-384", pem(e384), "P-256"), ("ES256", "secp256k1", pem(k1), "P-256"),
         ("ES256", "Ed25519", pem(d), "P-256"),
         ("EdDSA", "RSA", pem(r), "Ed25519"), ("EdDSA", "P-256", pem(e), "Ed25519"), ("EdDSA", "Ed448", pem(d448), "Ed25519"),
         ("RS256", "DSA", pem(dsa.generate_private_key(2048)), "RSA"),
         ("HS256", "RSA", pem(r), "hex"), ("RS256", "hex", SECRET.hex().encode(), "BEGIN PUBLIC KEY"),
         ("RS256", "empty", b"", "BEGIN PUBLIC KEY"), ("RS256", "certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate"),
         ("RS256", "encrypted by an old header", pem(r).replace(b"KEY-----\n", b"KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00000000000000000000000000000000\n\n", 1), "damaged")]


def c_text(value):
    value = value.decode() if isinstance(value, bytes) else value
    return "".join({"\n": "\\n", '"': '\\"', "\\": "\\\\"}.get(c, c) for c in value)


def lines(value, step=88):
    return "\n".join('     "%s"' % c_text(value[i:i + step]) for i in range(0, len(value), step)) or '     ""'


def table(head, rows):
    print(f"\nstatic const struct {{\n    {head}\n}} {rows[0]}[] = {{")
    for row in rows[1]:
        *short, last = row
        last = last.decode() if isinstance(last, bytes) else last
        print("    {" + ", ".join('"%s"' % c_text(x) for x in short) + ",\n" + lines(last) + "},")
    print("};")


print(f"""/* Made by jwt_public_vectors.py with PyJWT {jwt.__version__}; not to be edited. Keys r and r3 (RS256), e
 * (ES256), d (EdDSA), h (HS256: bytes 0-31). */
#ifndef BELFRY_TESTS_JWT_PUBLIC_VECTORS_H
#define BELFRY_TESTS_JWT_PUBLIC_VECTORS_H
/* clang-format off */

static const char""")
for name, key in (("pem_r", r), ("pem_r2", r2), ("pem_r3", r3), ("pem_e", e), ("pem_d", d)):
    end = ";" if name == "pem_d" else ","
    print(f"    {name}[] =\n" + "\n".join('     "%s\\n"' % x.decode() for x in pem(key).splitlines()) + end)
print("\n/* Good until 2100, for a running reader. */\nstatic const char")
for name, token in long:
    print(f"    token_{name}[] =\n{lines(token)}" + (";" if name == "rsa_hmac" else ","))
table("const char *name, *token;", ("public_good", good))
table("const char *name, *token;", ("public_bad", bad))
table("const char *name, *token;", ("public_expired", expired))
table("const char *alg, *name, *why, *file;", ("public_files", [(a, b, w, f) for a, b, f, w in files]))
print("\n/* clang-format on */\n#endif")
