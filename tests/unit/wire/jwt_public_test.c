/* RS256, ES256 and EdDSA beside HS256: tokens made by another implementation, and every confusion of keys,
 * algorithms and headers that is known; files that are no key for their algorithm. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/wire/jwt_public_vectors.h"
#include "wire/jwt.h"

enum { FILES = 5, TOKEN_ROOM = JWT_TOKEN_MAX + 1 };

static const int64_t now_us = 1774083600999999;
static char folder[32];
static struct jwt_keys keys;
static struct fault fault;

static void write_file(const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_geq(fputs(text, file), 0);
    fclose(file);
}

static void begin(void)
{
    static const struct {
        const char *name, *text;
    } files[FILES] = {{"r", pem_r},
                      {"r3", pem_r3},
                      {"e", pem_e},
                      {"d", pem_d},
                      {"h", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"}};
    static const char *const algs[FILES] = {"RS256", "RS256", "ES256", "EdDSA", "HS256"};
    char list[512];
    size_t used = 0;
    strcpy(folder, "/tmp/belfry_jwt_XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    for (size_t i = 0; i < FILES; i++) {
        write_file(files[i].name, files[i].text);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s:%s:%s/%s ", files[i].name, algs[i],
                                 folder, files[i].name);
    }
    cr_assert_eq(jwt_keys_load(span_of(list), &keys, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(keys.count, FILES);
}

static void end(void)
{
    static const char *const names[] = {"r", "r3", "e", "d", "h", "bad"};
    char path[64];
    jwt_keys_wipe(&keys);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

TestSuite(jwt_public, .init = begin, .fini = end);

static enum status verify(struct span token, struct jwt_claims *claims)
{
    const struct jwt_rules rules = {.keys = &keys, .issuer = "issuer", .audience = "belfry"};
    fault_reset(&fault);
    return jwt_verify(&rules, token, now_us, claims, &fault);
}

Test(jwt_public, good_tokens)
{
    const size_t count = sizeof public_good / sizeof public_good[0];
    for (size_t i = 0; i < count; i++) {
        struct jwt_claims claims = {.sub = ""};
        cr_assert_eq(verify(span_of(public_good[i].token), &claims), ST_OK, "%s: %s", public_good[i].name,
                     fault.text);
        cr_assert_str_eq(claims.sub, "u1");
    }
    cr_log_info("%zu tokens of another implementation hold", count);
}

Test(jwt_public, forged_tokens)
{
    const size_t count = sizeof public_bad / sizeof public_bad[0];
    for (size_t i = 0; i < count; i++) {
        struct jwt_claims claims = {.sub = "untouched"};
        cr_assert_eq(verify(span_of(public_bad[i].token), &claims), ST_REJECT, "%s was accepted",
                     public_bad[i].name);
        cr_assert_str_eq(fault.code, JWT_INVALID, "%s: %s", public_bad[i].name, fault.text);
        cr_assert_str_eq(claims.sub, "untouched");
        cr_assert_null(strstr(fault.text, "eyJ"), "nothing of a token");
    }
    for (size_t i = 0; i < sizeof public_expired / sizeof public_expired[0]; i++) {
        struct jwt_claims claims;
        cr_assert_eq(verify(span_of(public_expired[i].token), &claims), ST_REJECT);
        cr_assert_str_eq(fault.code, JWT_EXPIRED, "%s", public_expired[i].name);
    }
    cr_log_info("%zu forged tokens refused", count);
}

/* The same forgeries with one key alone, where a token without a kid is taken: nothing but that may change.
 */
Test(jwt_public, one_key_alone)
{
    struct jwt_keys all = keys;
    size_t taken = 0;
    for (size_t k = 0; k < all.count; k++) {
        keys = (struct jwt_keys){.keys = {all.keys[k]}, .count = 1};
        for (size_t i = 0; i < sizeof public_bad / sizeof public_bad[0]; i++) {
            struct jwt_claims claims;
            if (verify(span_of(public_bad[i].token), &claims) != ST_OK)
                continue;
            cr_assert_str_eq(public_bad[i].name, "no kid");
            cr_assert_str_eq(keys.keys[0].kid, "r");
            taken++;
        }
    }
    keys = all;
    cr_assert_eq(taken, 1);
}

/* No shorter token, and none with one bit of a byte changed, holds; a signature's every bit counts. */
Test(jwt_public, every_truncation_and_change)
{
    static char changed[TOKEN_ROOM];
    size_t tried = 0;
    for (size_t i = 0; i < sizeof public_good / sizeof public_good[0]; i++) {
        const char *token = public_good[i].token;
        size_t bytes = strlen(token);
        cr_assert_lt(bytes, sizeof changed);
        for (size_t at = 0; at < bytes; at++) {
            struct jwt_claims claims;
            cr_assert_eq(verify((struct span){token, at}, &claims), ST_REJECT, "%s cut at %zu",
                         public_good[i].name, at);
            memcpy(changed, token, bytes);
            changed[at] = (char)(changed[at] ^ (1 << at % 8));
            cr_assert_eq(verify((struct span){changed, bytes}, &claims), ST_REJECT, "%s changed at %zu",
                         public_good[i].name, at);
            cr_assert_str_eq(fault.code, JWT_INVALID);
            tried += 2;
        }
        memcpy(changed, token, bytes);
        changed[bytes] = 'A';
        struct jwt_claims claims;
        cr_assert_eq(verify((struct span){changed, bytes + 1}, &claims), ST_REJECT);
    }
    cr_log_info("%zu cut or changed tokens refused", tried);
}

/* ---- files ----------------------------------------------------------------------------------------------
 */

static enum status load_bad(const char *alg, const char *text, struct jwt_keys *loaded)
{
    char list[128];
    write_file("bad", text);
    snprintf(list, sizeof list, "e:ES256:%s/e k:%s:%s/bad", folder, alg, folder);
    fault_reset(&fault);
    return jwt_keys_load(span_of(list), loaded, &fault);
}

Test(jwt_public, unfit_files)
{
    const size_t count = sizeof public_files / sizeof public_files[0];
    for (size_t i = 0; i < count; i++) {
        struct jwt_keys loaded = {.count = 9};
        cr_assert_eq(load_bad(public_files[i].alg, public_files[i].file, &loaded), ST_REJECT,
                     "%s for %s was taken", public_files[i].name, public_files[i].alg);
        cr_assert_not_null(strstr(fault.text, public_files[i].why), "%s for %s: %s", public_files[i].name,
                           public_files[i].alg, fault.text);
        cr_assert_str_eq(fault.field, "auth.keys");
        cr_assert_null(strstr(fault.text, "MII"), "nothing of a file");
        cr_assert_eq(loaded.count, 9, "written only on success");
    }
    cr_log_info("%zu unfit files refused", count);
}

/* Every shorter file is refused, as long as the key itself or its end is not whole. */
Test(jwt_public, cut_files)
{
    static const struct {
        const char *alg, *pem;
    } rows[] = {{"RS256", pem_r}, {"ES256", pem_e}, {"EdDSA", pem_d}};
    char text[1024];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t bytes = 0; bytes + 1 < strlen(rows[i].pem); bytes++) {
            struct jwt_keys loaded;
            memcpy(text, rows[i].pem, bytes);
            text[bytes] = '\0';
            cr_assert_eq(load_bad(rows[i].alg, text, &loaded), ST_REJECT, "%s of %zu bytes", rows[i].alg,
                         bytes);
        }
    }
}

Test(jwt_public, text_around_a_key_and_long_files)
{
    static char text[CRYPTO_PEM_BYTES_MAX + 2];
    struct jwt_keys loaded;
    snprintf(text, sizeof text, "# our issuer's\n%s\n", pem_e);
    cr_assert_eq(load_bad("ES256", text, &loaded), ST_OK, "%s", fault.text);
    jwt_keys_wipe(&loaded);
    snprintf(text, sizeof text, "%s", pem_e);
    size_t bytes = strlen(text);
    memset(text + bytes, '\n', sizeof text - 1 - bytes);
    cr_assert_eq(load_bad("ES256", text, &loaded), ST_REJECT);
    text[sizeof text - 2] = '\0';
    cr_assert_eq(load_bad("ES256", text, &loaded), ST_OK, "%s", fault.text);
    jwt_keys_wipe(&loaded);
}
