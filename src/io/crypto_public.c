/* In: PEM files; texts and signatures. Out: keys of one kind each; whether a signature holds. Always: the key
 * decides how it is checked, and a key that is too short, not sound or of another kind never comes to be. */
#include "io/crypto.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "key_file.h"

struct crypto_public {
    enum crypto_kind kind;
    EVP_PKEY *key;
};

/* ---- reading --------------------------------------------------------------------------------------------
 */

/* A file that wants a passphrase must not ask for it on the terminal. OpenSSL's signature. */
static int no_passphrase(char *text, int bytes, int writing, void *context)
{
    (void)text;
    (void)bytes;
    (void)writing;
    (void)context;
    return -1;
}

/* What a file that is not one public key most likely is; NULL: it is one. */
static const char *what_is_wrong(const char *text)
{
    static const struct {
        const char *mark, *why;
    } marks[] = {
        {"PRIVATE KEY-----", "holds a private key, which only who signs may have; give its public key"
                             " (openssl pkey -in FILE -pubout)"},
        {"-----BEGIN CERTIFICATE", "holds a certificate; give its public key"
                                   " (openssl x509 -in FILE -pubkey -noout)"},
        {"-----BEGIN RSA PUBLIC KEY", "holds an RSA key in the form of PKCS#1; change it"
                                      " (openssl rsa -RSAPublicKey_in -in FILE -pubout)"},
    };
    static const char begin[] = "-----BEGIN PUBLIC KEY-----";
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (strstr(text, marks[i].mark) != NULL)
            return marks[i].why;
    }
    const char *first = strstr(text, begin);
    if (first == NULL)
        return "holds no public key in PEM: it must begin with -----BEGIN PUBLIC KEY-----";
    return strstr(first + 1, begin) == NULL ? NULL : "holds several keys: one file is one key";
}

static bool is_p256(const EVP_PKEY *key)
{
    char name[32] = "";
    size_t bytes = 0;
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
           EVP_PKEY_get_group_name(key, name, sizeof name, &bytes) == 1 && strcmp(name, "prime256v1") == 0;
}

/* NULL: the key fits its kind. */
static const char *what_does_not_fit(const EVP_PKEY *key, enum crypto_kind kind)
{
    switch (kind) {
    case CRYPTO_RSA_SHA256:
        if (EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA)
            return "holds no RSA key, which RS256 needs";
        if (EVP_PKEY_get_bits(key) < CRYPTO_RSA_BITS_MIN)
            return "holds an RSA key of fewer than 2048 bits: make a longer one";
        return EVP_PKEY_get_bits(key) > CRYPTO_RSA_BITS_MAX ? "holds an RSA key of more than 8192 bits"
                                                            : NULL;
    case CRYPTO_P256_SHA256:
        return is_p256(key) ? NULL : "holds no key on the curve P-256 (prime256v1), which ES256 needs";
    case CRYPTO_ED25519:
        return EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? NULL
                                                             : "holds no Ed25519 key, which EdDSA needs";
    }
    return "is of no known kind";
}

/* A point on its curve, a modulus that is none of a sabotaged key, an exponent over 1. */
static bool is_sound(EVP_PKEY *key)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(key, NULL);
    bool sound = context != NULL && EVP_PKEY_public_check(context) == 1;
    EVP_PKEY_CTX_free(context);
    return sound;
}

static EVP_PKEY *parse(const char *text, size_t bytes)
{
    BIO *source = BIO_new_mem_buf(text, (int)bytes);
    EVP_PKEY *key = source == NULL ? NULL : PEM_read_bio_PUBKEY(source, NULL, no_passphrase, NULL);
    BIO_free(source);
    return key;
}

static enum status key_of_text(const char *path, const struct key_file *file, struct crypto_public *key,
                               struct fault *fault)
{
    const char *why = what_is_wrong(file->text);
    if (why != NULL)
        return key_file_refuse(path, why, fault);
    key->key = parse(file->text, file->bytes);
    if (key->key == NULL)
        return key_file_refuse(path, "holds a damaged key, or one that this OpenSSL does not know", fault);
    why = what_does_not_fit(key->key, key->kind);
    if (why == NULL && !is_sound(key->key))
        why = "holds a key that is not sound: its numbers are none of a real key";
    return why == NULL ? ST_OK : key_file_refuse(path, why, fault);
}

enum status crypto_public_read(const char *path, enum crypto_kind kind, struct crypto_public **key,
                               struct fault *fault)
{
    char text[CRYPTO_PEM_BYTES_MAX + 2];
    struct key_file file = {.text = text, .bytes_max = sizeof text - 1};
    enum status status = key_file_read(path, &file, fault);
    if (status != ST_OK)
        return status;
    text[file.bytes] = '\0';
    if (file.bytes > CRYPTO_PEM_BYTES_MAX || strlen(text) != file.bytes)
        return key_file_refuse(path, "is not the PEM text of one key", fault);
    struct crypto_public *made = calloc(1, sizeof *made);
    if (made == NULL)
        return key_file_refuse(path, "cannot be taken: no memory", fault);
    made->kind = kind;
    status = key_of_text(path, &file, made, fault);
    ERR_clear_error();
    if (status == ST_OK)
        *key = made;
    else
        crypto_public_free(made);
    return status;
}

void crypto_public_free(struct crypto_public *key)
{
    if (key == NULL)
        return;
    EVP_PKEY_free(key->key);
    free(key);
}

/* ---- checking -------------------------------------------------------------------------------------------
 */

static bool holds(const struct crypto_public *key, struct span text, const unsigned char *signature,
                  size_t bytes)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    const EVP_MD *digest = key->kind == CRYPTO_ED25519 ? NULL : EVP_sha256();
    bool good = context != NULL && EVP_DigestVerifyInit(context, NULL, digest, NULL, key->key) == 1 &&
                EVP_DigestVerify(context, signature, bytes, (const unsigned char *)text.at, text.bytes) == 1;
    EVP_MD_CTX_free(context);
    return good;
}

/* OpenSSL wants r and s in DER. */
static bool holds_p256(const struct crypto_public *key, struct span text, const unsigned char *raw)
{
    const int half = CRYPTO_P256_SIGNATURE_BYTES / 2;
    unsigned char *der = NULL;
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, half, NULL), *s = BN_bin2bn(raw + half, half, NULL);
    bool good = pair != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(pair, r, s) == 1;
    if (!good) {
        BN_free(r);
        BN_free(s);
    }
    int bytes = good ? i2d_ECDSA_SIG(pair, &der) : 0;
    good = bytes > 0 && holds(key, text, der, (size_t)bytes);
    OPENSSL_free(der);
    ECDSA_SIG_free(pair);
    return good;
}

bool crypto_public_holds(const struct crypto_public *key, struct span text, struct span signature)
{
    const unsigned char *raw = (const unsigned char *)signature.at;
    bool good = false;
    switch (key->kind) {
    case CRYPTO_RSA_SHA256:
        good =
            signature.bytes == (size_t)EVP_PKEY_get_size(key->key) && holds(key, text, raw, signature.bytes);
        break;
    case CRYPTO_P256_SHA256:
        good = signature.bytes == CRYPTO_P256_SIGNATURE_BYTES && holds_p256(key, text, raw);
        break;
    case CRYPTO_ED25519:
        good = signature.bytes == CRYPTO_ED25519_SIGNATURE_BYTES && holds(key, text, raw, signature.bytes);
        break;
    }
    ERR_clear_error();
    return good;
}
