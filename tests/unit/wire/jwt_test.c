/* Tokens made by another implementation, and all the ways to get around a signature that are known. */
#include "wire/jwt.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/wire/jwt_vectors.h"

static const int64_t now_us = 1774083600999999;
static struct jwt_keys keys;
static struct fault fault;

static void begin(void)
{
    keys = (struct jwt_keys){.count = 2};
    strcpy(keys.keys[0].kid, "a");
    strcpy(keys.keys[1].kid, "b");
    keys.keys[0].secret.count = 32;
    keys.keys[1].secret.count = 64;
    for (int i = 0; i < 64; i++) {
        keys.keys[0].secret.bytes[i] = i < 32 ? (unsigned char)i : 0;
        keys.keys[1].secret.bytes[i] = (unsigned char)(100 + i);
    }
}

TestSuite(jwt, .init = begin);

static enum status verify(const char *token, struct jwt_claims *claims)
{
    const struct jwt_rules rules = {.keys = &keys, .issuer = "issuer", .audience = "belfry"};
    fault_reset(&fault);
    return jwt_verify(&rules, span_of(token), now_us, claims, &fault);
}

Test(jwt, vectors)
{
    int accepted = 0;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        struct jwt_claims claims = {.sub = "untouched"};
        enum status status = verify(vectors[i].token, &claims);
        if (vectors[i].code == NULL) {
            cr_assert_eq(status, ST_OK, "%s: %s", vectors[i].name, fault.text);
            cr_assert_str_neq(claims.sub, "untouched");
            accepted++;
            continue;
        }
        cr_assert_eq(status, ST_REJECT, "%s was accepted", vectors[i].name);
        cr_assert_str_eq(fault.code, vectors[i].code, "%s: %s %s", vectors[i].name, fault.code, fault.text);
        cr_assert_str_eq(claims.sub, "untouched");
        cr_assert_null(strstr(fault.text, "eyJ"), "nothing of a token");
    }
    cr_assert_gt(accepted, 8);
}

Test(jwt, claims_of_a_vector)
{
    struct jwt_claims claims;
    cr_assert_eq(verify(vectors[0].token, &claims), ST_OK);
    cr_assert_str_eq(claims.sub, "u1");
    cr_assert_eq(claims.expires_at_s, 1774083600 + 3600);
}

Test(jwt, without_kid_only_the_only_key)
{
    struct jwt_claims claims;
    cr_assert_eq(verify(VECTOR_WITHOUT_KID, &claims), ST_REJECT);
    keys.count = 1;
    cr_assert_eq(verify(VECTOR_WITHOUT_KID, &claims), ST_OK, "%s", fault.text);
    keys.count = 0;
    cr_assert_eq(verify(VECTOR_WITHOUT_KID, &claims), ST_REJECT);
    cr_assert_eq(verify(vectors[0].token, &claims), ST_REJECT);
}

Test(jwt, issuer_and_audience_only_when_set)
{
    const struct jwt_rules open = {.keys = &keys, .issuer = "", .audience = NULL};
    int more = 0;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        struct jwt_claims claims;
        bool about = strstr(vectors[i].name, "issuer") != NULL || strstr(vectors[i].name, "audience") != NULL;
        enum status status = jwt_verify(&open, span_of(vectors[i].token), now_us, &claims, &fault);
        cr_assert_eq(status == ST_OK, about || vectors[i].code == NULL, "%s", vectors[i].name);
        more += about && vectors[i].code != NULL;
    }
    cr_assert_eq(more, 7);
}

/* No single changed byte anywhere in a good token leaves it good. */
Test(jwt, any_change_is_refused)
{
    char token[1024];
    size_t bytes = strlen(vectors[0].token);
    cr_assert_lt(bytes, sizeof token);
    for (size_t i = 0; i < bytes; i++) {
        for (int bit = 0; bit < 8; bit++) {
            struct jwt_claims claims;
            memcpy(token, vectors[0].token, bytes);
            token[i] = (char)(token[i] ^ (1 << bit));
            const struct jwt_rules rules = {.keys = &keys};
            enum status status = jwt_verify(&rules, (struct span){token, bytes}, now_us, &claims, &fault);
            cr_assert_eq(status, ST_REJECT, "byte %zu bit %d", i, bit);
            cr_assert_str_eq(fault.code, JWT_INVALID);
        }
        struct jwt_claims claims;
        cr_assert_eq(verify("", &claims), ST_REJECT);
        const struct jwt_rules rules = {.keys = &keys};
        cr_assert_eq(jwt_verify(&rules, (struct span){vectors[0].token, i}, now_us, &claims, &fault),
                     ST_REJECT);
    }
}

Test(jwt, minted_tokens_verify)
{
    static const char *const subs[] = {"u1", "\"quoted\\", "zo\xc3\xab \xf0\x9f\x94\x94", "tab\tnewline\n"};
    for (size_t i = 0; i < sizeof subs / sizeof subs[0]; i++) {
        struct jwt_claims claims;
        struct buffer token;
        buffer_init(&token, JWT_TOKEN_MAX);
        buffer_add_text(&token, "x ");
        struct jwt_grant grant = {.sub = span_of(subs[i]),
                                  .issuer = "issuer",
                                  .audience = "belfry",
                                  .issued_at_s = now_us / 1000000,
                                  .expires_at_s = now_us / 1000000 + 60};
        jwt_mint(&keys.keys[i % 2], &grant, &token);
        cr_assert_not(token.failed);
        cr_assert_eq(verify(token.at + 2, &claims), ST_OK, "%s", fault.text);
        cr_assert_str_eq(claims.sub, subs[i]);
        cr_assert_eq(claims.expires_at_s, now_us / 1000000 + 60);
        buffer_done(&token);
    }
    struct buffer small;
    buffer_init(&small, 100);
    jwt_mint(&keys.keys[0], &(struct jwt_grant){.sub = span_of("u1")}, &small);
    cr_assert(small.failed);
    buffer_done(&small);
}

Test(jwt, bearer)
{
    static const struct {
        const char *header, *token, *code;
    } rows[] = {
        {"Bearer abc.def-_.~+/=", "abc.def-_.~+/=", NULL},
        {"bearer a", "a", NULL},
        {"BEARER    a  ", "a", NULL},
        {"  Bearer a", "a", NULL},
        {"", NULL, JWT_MISSING},
        {"  \t", NULL, JWT_MISSING},
        {"Bearer", NULL, JWT_INVALID},
        {"Bearer ", NULL, JWT_INVALID},
        {"Bearer\ta", NULL, JWT_INVALID},
        {"Basic dTpw", NULL, JWT_INVALID},
        {"Bearerx a", NULL, JWT_INVALID},
        {"Bearer a b", NULL, JWT_INVALID},
        {"Bearer a, Bearer b", NULL, JWT_INVALID},
        {"Bearer \"a\"", NULL, JWT_INVALID},
        {"Bearer \xc3\xa9", NULL, JWT_INVALID},
        {"a.b.c", NULL, JWT_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct span token = {NULL, 0};
        enum status status = jwt_bearer(span_of(rows[i].header), &token, &fault);
        cr_assert_eq(status, rows[i].code == NULL ? ST_OK : ST_REJECT, "%s", rows[i].header);
        if (rows[i].code == NULL)
            cr_assert(span_is(token, rows[i].token));
        else
            cr_assert_str_eq(fault.code, rows[i].code, "%s", rows[i].header);
    }
    struct span token;
    cr_assert_eq(jwt_bearer((struct span){NULL, 0}, &token, &fault), ST_REJECT);
    cr_assert_str_eq(fault.code, JWT_MISSING);
}

/* ---- key lists ----------------------------------------------------------------------------------------- */

static char path[32];

static void make_key_file(void)
{
    strcpy(path, "/tmp/belfry_jwt_XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    for (int i = 0; i < 32; i++)
        cr_assert_eq(dprintf(fd, "%02x", i), 2);
    cr_assert_eq(dprintf(fd, "\n"), 1);
    close(fd);
}

static void drop_key_file(void)
{
    unlink(path);
}

TestSuite(jwt_keys, .init = make_key_file, .fini = drop_key_file);

/* $ in a list stands for the path of a good key file. */
static enum status load(const char *list, struct jwt_keys *loaded)
{
    struct buffer text;
    buffer_init(&text, 8192);
    for (; *list != '\0'; list++) {
        if (*list == '$')
            buffer_add_text(&text, path);
        else
            buffer_add_byte(&text, *list);
    }
    fault_reset(&fault);
    enum status status = jwt_keys_load(buffer_span(&text), loaded, &fault);
    buffer_done(&text);
    return status;
}

Test(jwt_keys, loaded)
{
    struct jwt_keys loaded;
    cr_assert_eq(load("  main:HS256:$\t old.2024:HS256:$ ", &loaded), ST_OK, "%s", fault.text);
    cr_assert_eq(loaded.count, 2);
    cr_assert_str_eq(loaded.keys[0].kid, "main");
    cr_assert_str_eq(loaded.keys[1].kid, "old.2024");
    cr_assert_eq(loaded.keys[1].secret.bytes[31], 31);
    cr_assert_not(loaded.keys[0].secret.loose);
    cr_assert_eq(load("", &loaded), ST_OK);
    cr_assert_eq(loaded.count, 0);
}

Test(jwt_keys, refused)
{
    static const char *const bad[] = {
        "$",
        "main:$",
        "main:HS256:",
        "main::$",
        ":HS256:$",
        "main:HS256",
        "a:HS256:$ a:HS256:$",
        "a:HS512:$",
        "a:none:$",
        "a:RS256:$",
        "a:hs256:$",
        "a:HS256:/nonexistent/key",
        "a b:HS256:$",
        "\xc3\xa9:HS256:$",
        "x12345678901234567890123456789012345678901234567890123456789012345:HS256:$",
        ("1:HS256:$ 2:HS256:$ 3:HS256:$ 4:HS256:$ 5:HS256:$ 6:HS256:$ 7:HS256:$ 8:HS256:$ 9:HS256:$ "
         "10:HS256:$ 11:HS256:$ 12:HS256:$ 13:HS256:$ 14:HS256:$ 15:HS256:$ 16:HS256:$ 17:HS256:$"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct jwt_keys loaded = {.count = 9};
        cr_assert_eq(load(bad[i], &loaded), ST_REJECT, "%s", bad[i]);
        cr_assert_str_eq(fault.field, "auth.keys");
        cr_assert_eq(loaded.count, 9, "written only on success");
    }
}
