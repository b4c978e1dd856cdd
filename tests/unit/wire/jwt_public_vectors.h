/* Made by jwt_public_vectors.py with PyJWT 2.15.1; not to be edited. Keys r and r3 (RS256), e
 * (ES256), d (EdDSA), h (HS256: bytes 0-31). */
#ifndef BELFRY_TESTS_JWT_PUBLIC_VECTORS_H
#define BELFRY_TESTS_JWT_PUBLIC_VECTORS_H
/* clang-format off */

static const char
    pem_r[] =
     "-----BEGIN PUBLIC KEY-----\n"
     "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA0aQ1AKXjEQx9ORuoYNBY\n"
     "BMnXgOo1OjkiSRolD2GdRDGs+y5lWuIkjrYI37JVCwWoON6DDvP1SlsHlOsi29Wy\n"
     "o7z6/hSlb+CKDfCloF2vTJdtM3dKpiBe5iGBm97oog2n856zAaJ8HdWm6FyThm04\n"
     "ioIODmQKhmQS2JFMXZ3VxsJ4mJtvk3s3d7+yWySLGSbkYu9rQiKA1otTMh+grZLv\n"
     "ZsgZaimBzW801O6V1/4kC84JK5TsIu9YBOpfUeXIzNht0+uAqFhZ8zhpf/oCHaV3\n"
     "0PaSdLYJ+5flgXtV/RxlXefRd2Gzxm4o3PQVHZLXb8zmIG2y0SBn80yKfUt0f7l2\n"
     "iwIDAQAB\n"
     "-----END PUBLIC KEY-----\n",
    pem_r2[] =
     "-----BEGIN PUBLIC KEY-----\n"
     "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA05du7TyuF4FM+hUXY0Or\n"
     "Sk5YSYZHu9UFkq86RFe7ShLaBJaVrHk31gIE9sGoM9cS1tCpy8+npFs7YAzefvBK\n"
     "g5mpzRtxvSDYZLFj2y+j7rCFbiRUwaaoTaDTzLh+7aSUBO1mts6mupM4CnxoqyWm\n"
     "2yqwcbPc523azzbyYoKTDegfMNrWtUF0mYZxyDS/GEqDgCHX1hPqo7ymZ1ZeKHIK\n"
     "Vs8JmVo3+dU1IfDPp/+/Bc3S8PDzWlx7EM6/Z4mUBQkYcTpeArRzQUdlOpS+t9dB\n"
     "upfrRwYJRXxEbBo/WsnBeyKai4k8tS+HZr5ZLzq+DQgj9nilISHIyxWZ6c9q6Dzg\n"
     "gwIDAQAB\n"
     "-----END PUBLIC KEY-----\n",
    pem_r3[] =
     "-----BEGIN PUBLIC KEY-----\n"
     "MIIBojANBgkqhkiG9w0BAQEFAAOCAY8AMIIBigKCAYEAifsuzqPYwPHsyYJKSRVJ\n"
     "GLtK7bepJv3pkERGSzEIU9gm5nQaZ8TLLFoNhid+gWsBQUSN+xj7ePvXG/96sQXn\n"
     "XPhDiDCgNfvynvqyiI7HHpcs6cbOAOTJYjM1DTM1UWEtXLV3Z875OX/15rXzHG/J\n"
     "wxkdR3kDNE+rbbZid2mhle2JRUWYgQHoK03g8o53KSAA+dMe3gdn6HVcMbRD45OW\n"
     "Tr41yb/DJgw21seGRzZTBfyyUEjDp7JXFQYa+XFvmM87ei8eZ5CchKo5BJmUkyZu\n"
     "2jcLfsEhLbfzNrexJfEi0p5vLl5tEMvAUMArTWmJ+ZzCx5+tkbLOZG+N1XMep1u+\n"
     "zGCct6ZhYkDuLZC4Ru+B/0b30HJWtsrb127GgC+/HVY7SxXCHTOnl1OQia1E9NuQ\n"
     "oxPY+QAZffN11Mpo7o0dXFI3pkKKzenZLM0/VPdncpQYauUI2WF/TCe0Mi3FOTBY\n"
     "UYJyfoLQeDshFhqV6HM/zuxn9nV0b2Uvy7c4sIal8rfxAgMBAAE=\n"
     "-----END PUBLIC KEY-----\n",
    pem_e[] =
     "-----BEGIN PUBLIC KEY-----\n"
     "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJBuRd/wQa0BlrUgvpZlp2SmVGNdu\n"
     "0p5Ixu/eiQtuV5A7Y5n0x2+yYfaLMv4vFJoXaMOW/10PIgwFVeZ8+8Wxrw==\n"
     "-----END PUBLIC KEY-----\n",
    pem_d[] =
     "-----BEGIN PUBLIC KEY-----\n"
     "MCowBQYDK2VwAyEALFfGe6L9oSVEntJpegvrEcXFEg9MEb7zyVICUgfDFx4=\n"
     "-----END PUBLIC KEY-----\n";

/* Good until 2100, for a running reader. */
static const char
    token_rsa[] =
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6NDEwMjQ0NDgwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.Eka8aL8AVER_Kq45MWnuziAzny86G7_gG9qfelsEhNGwx"
     "GILN50x2icNr3pA4h_LbkNzMPJnu3ZB7Upo_ieZGazq9zAE2Ku67WvruCZ2qOfYZ8S9DcFKmdAvjcErqA045viYv"
     "yK_m7RUa8fxNWXUer3zIDt_TunbMZtzcP3r16sJsFRXTEJnEVWwTa8p1AsgEIxFbrJPCyC8F-z39aV3wQjieOyn6"
     "4GdYQhBdvgtZGnY-pesB6I-8nXSWxv0HfetZOgzpsblKoKQV3i7aG27Rc51tfZLR5hWbPSVaK6kRcuyGuJ4jhIwE"
     "AMXkh44IadmUbK5OBbFkS9rFq531KfLAw",
    token_rsa_second[] =
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIyIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ1MSIsImV4cCI6NDEwMjQ0NDgw"
     "MCwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.xmFsPgmwrvVNJInJn1u3VM7CGgTuD6KWJOe-0_hhxlzo"
     "-6nr8p9nTG6o08Wo2sc_-rGOD99PtT4Z2SEwNajTPiidHPpaU-1J6aKrBOqzHOJOYCnJNxS2YAMELWdbZoehXQvw"
     "11_GSEzJtTncQPwZHSIvaDF6nPhmoG8LE2dnlZU7duu8R9l-GPvIwMnmoTv5ULSb7UcUpWZOTWbvJyXVN8oCs20-"
     "0PgwB5-ZZ-1bADsZ6amzi-PojpLXK44aBzem8pPUwcZiW9Q0xyKupm30Ym-b_oERdaQ9f9XCcX-1FGbkxRJRAgDk"
     "2bSeHnjwBx0GUinzL4Uo1Cwy2a6sWGaNEg",
    token_rsa_second_as_first[] =
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6NDEwMjQ0NDgwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.gGQ7_-szUvXKRPrNeYlYK855jG8vgAK0T8k1-PsKfmwzZ"
     "FY__Sd4FP0wcM3YOFJmi1FyRSTSt7PQOobkOwfCMnwLAGmQ1s-QwtJZpRotOXAuT_wlTRoeZJ_oQI6Yg9f0kvqKe"
     "lQkC3J9haSRslG33oG1X0fQ3CwvHPSPle8awNnKFXFVLws38WYkipdBhd468TCIWph0pitUUhQEqQVml3BVKVPfo"
     "DPgP51yytjtDRfUFZ6ClY7nCO0VH7jmiQsWX6t1qi7ar3mFxXpKLqgJFrOPl49hnx6oIwrcStt-rEttJccEmI4p4"
     "gkxsM313iI32yMlXP6qkQFZHJdUI7oItQ",
    token_p256[] =
     "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6NDEwMjQ0NDgwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.T1kAkK3pi-WnOMil-y8kbR8Eoym2Uk5gG0Cz2gFSny22-"
     "NkTrDrWud-35iJnwC8_1zkfs2opmRoWGlOFGOWwRA",
    token_ed25519[] =
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6NDEwMjQ0NDgwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.DmpqLJK71Z6sJQZmoDw_5YGh2ajRbYVa4SPCRICfj0l2C"
     "6DIyhAUkKQRigE_hFB-T6cPrfJihpHL77ccdlioBA",
    token_rsa_hmac[] =
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogNDE"
     "wMjQ0NDgwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.Q2-UvOOAr06WDQcxNIGdtRo0zwjFpy"
     "asc8RDfCVRmNc";

static const struct {
    const char *name, *token;
} public_good[] = {
    {"RS256",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.UjXWU48pzNMUeu3w4b0DkY2bl9Hd3wbbqGstYy6uq2Gio"
     "Ehx-aJrpFFhYdSgHNw92Ph1KRUrqDrdWIN8JegEAxJXmmDvH_oGg2JC9BrEuTs_kT7U6x1yTe9at6lVYV6wzylOJ"
     "x-8jjTeKYtHWME3_BPj9U2mvOmfgvfIsSJt9ALTN2tZNQH0Wr-CThe9sN-vliiHEA5x1AwCBS6Yf7e6AKHZjXcTo"
     "AOMBt5k70HTdv1OjllxPSIWo-KJ0O8yF6H2Lr4ZxxTppNavTqn9Gxyt_i3frE0lJLpJ-BmZWME85Nr5jtD7epmqD"
     "XGc40Vyv-3LQbRBjy2VAoprP7Rk8zf9CA"},
    {"RS256, typ at+jwt",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJhdCtqd3QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4N"
     "zIwMCwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.Wx7nMGBRdpz-9TPyJCot7ZL76aPFAW-IDYSPpW5gh"
     "rQUYoAr1Wp4GUtil170bMf0OPWIhdhgFq67NRp89I4hhlAX8n_8ES8EfC-EtxbbP5wiND8EEImrg-p892H0ixpFS"
     "yDN6WZHLJc7Ndn3Yda-nIxPJ0elbs7XEv0QTNDEklFlpe4IumMnDJ1wxxsLVs8nDTduDH2YsSEeRa-_6oeNukINz"
     "l8qeA0ZjBRDeWWa9nb428z1qsl6Oxe1EjeJGgyssPzGTOkx848ZWE-H3IQIKWjJBseZn9MnCoPX-zzD4axQah2im"
     "b6vLO4TThPQbPigKbA1x8qP81y-fnzmeT5EfQ"},
    {"RS256, typ application/at+JWT",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJhcHBsaWNhdGlvbi9hdCtKV1QifQ.eyJzdWIiOiJ1MSIsI"
     "mV4cCI6MTc3NDA4NzIwMCwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.Rl1gqpRvDwk_9Hi7TOzcmjsHj"
     "EkPViD9DzJ0rgxsT3QzYQ6y-qypTUDe2hZR38aDbyVb063dtlGmVnCMkHrbv953ql4KTMI6gbNDBbsO4FJZntQSx"
     "0NPfzUbmqZD-QBLQ1bGozoypy2PWXiQ-za-Jz6D1YYSMU-_g84UfN63OqxH9V_-tZq0Mh91NyQoVZJmC3z_buUVh"
     "UkmTzwUp0NZR9MhG0IYrIaPiiEKLVx_1oKB9gRcb1ton9SdDUEtXGRGOBZDG2G_W4yeI5nJKcXs75yZGXKZur4xu"
     "Z0QB7shdeT0ujh3tO0W5MQWKNLQA1QDK8WnLRShTM01DefaDgHK9Q"},
    {"RS256, no typ",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCwiaXNzIjoiaXNzd"
     "WVyIiwiYXVkIjoiYmVsZnJ5In0.INatgympf3Y3QzTWnKqYCoVlgskZxnHqLFv0CcbEqAnUmkjwbDzLuLYNkMdqq"
     "RmXIDk376tLipCUruqPn0JyZoAwMnBvjMmBhVV-mfKpVhPl3abC-dbkg9lb9shTsU05qZKwFZ7owIEkOrQD7Hyd1"
     "vBpX472STmqAbDeg5-DnsrpBnL1vdR6OjfBuRWAg9DKS8xFi39mtoOBIq6uY3RQ7LNoIh2rq9yvoC0KKHWFmYms1"
     "y_N3vk12D20CuOzn-1cdUWhgDXC7IVuA5bWJ9QaFV5X510ZZxl0-4ELYgxcd9D-G4H8SexlwxWctiOP_Um_XIzLC"
     "hyrvVfXMy4kiJaF4Q"},
    {"RS256, audience in a list",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjpbIngiLCJiZWxmcnkiXX0.SHlT1SO2A25i66uWwe081jkV_94hvbHjEQd6C"
     "foDYroIcXUAjAYCSe6aQ5a2JqKhOByRcUZCExPgQ0fbFlVEnAedAbLGFBnfZzD5qJB3Dsl6yBaJAFSVZJ-q_dw_Z"
     "p8qg6kz0MqQkVNagDnd3osMgwn7CA_JgMsph-EYeUx1hJEG45qoMoZazwYZRv9Gnk6vtuksql1B7wXMu65j4Zjc6"
     "Il3InAGFfxzscg5alAsSjziDD5yZxGFu1Op8p6ldu_doExrgN_7nNWD9RL6DPUp7zvJww1varxkOYlag55cn4Mtw"
     "nJs0VueY3U-FeSUqLdNDWUJEEOr1_DLep6mGcoJsw"},
    {"ES256",
     "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.qTjhPt8WZ8Fjs1qILAvABTMmALhOa0VKR_RdrmvolCyc_"
     "Z2OOyLpgED9VpTONya9DUjql-eYBkeHVzMDwCn5CA"},
    {"ES256, typ at+jwt",
     "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUiLCJ0eXAiOiJhdCtqd3QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4N"
     "zIwMCwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.F9C7SKMXXymlO6vXT4piG9gNI3BJX5giyTffqYXJF"
     "GcEZfJUFWrcxOP7wBWUqA5QUGKA48eClZNHY1uDxShAWw"},
    {"ES256, typ application/at+JWT",
     "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUiLCJ0eXAiOiJhcHBsaWNhdGlvbi9hdCtKV1QifQ.eyJzdWIiOiJ1MSIsI"
     "mV4cCI6MTc3NDA4NzIwMCwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.cSPse385bqsYrmue_Qsqty_Ta"
     "a6GVgdj0PX-ZJQxAYT1ZS6cbVQbw6p7NQJCkdqEs4T8Dl9MtI8J6sGWIYjFRg"},
    {"ES256, no typ",
     "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCwiaXNzIjoiaXNzd"
     "WVyIiwiYXVkIjoiYmVsZnJ5In0.b4yC2Ml_DwLa2qeBVO0N5AZqVR4x2Zhqo-GBT7icKbAhKZ7C8Uoc4nFWi5_43"
     "Vyz6TULRjD--t75zUgVI2xWpw"},
    {"ES256, audience in a list",
     "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjpbIngiLCJiZWxmcnkiXX0.fojvfHSfdt8FccjQjozKNORf6YVIu8u9kQhQ2"
     "zMm3jZcyaWKrcAxvXouu9CaSSMGtK8sd8NspA8tg5sJ_DZlTQ"},
    {"EdDSA",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.jzyL03Uj49w6R8K0bUxdhY-27-ySjkoR1d6qUGE9lxCci"
     "fV0swNZra_bTEwMAs_hNt55CT-veNsiLpWMxwvuCQ"},
    {"EdDSA, typ at+jwt",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQiLCJ0eXAiOiJhdCtqd3QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4N"
     "zIwMCwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.1uFu0hho0rUy_1ZdPSHBTeI1RNqShiO2llclmPJ1q"
     "m0nN0uJiomJ41gQ7wkmSBxIM5nxnTi99NGDaWoX5snXBw"},
    {"EdDSA, typ application/at+JWT",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQiLCJ0eXAiOiJhcHBsaWNhdGlvbi9hdCtKV1QifQ.eyJzdWIiOiJ1MSIsI"
     "mV4cCI6MTc3NDA4NzIwMCwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.V77mT7RW0b2iUSDazZeZkDAGm"
     "TERMmGRJNWtFzZ_yOU20WIFw-GAmXMo19tEJUa9K59jtFbVFOtUm7mL_eybCA"},
    {"EdDSA, no typ",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCwiaXNzIjoiaXNzd"
     "WVyIiwiYXVkIjoiYmVsZnJ5In0.rAf9OZYg0e3tmfl4d3BMoOZR4eTqcsYpuBg5GyUqRsKIEr_EsEUhbYt01mSgq"
     "jk6mygCbnyT5KshmVGT1rl-Ag"},
    {"EdDSA, audience in a list",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjpbIngiLCJiZWxmcnkiXX0.mW4YabiV3sQxCwZ5RpDN-GEV9zDGRTsXQ33fY"
     "Fs9jUpVgTaOW8ixdHSkCviOVNbDwn8dbXnk9K-CX5ZJohZVAQ"},
    {"RS256 of 3072 bits",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIzIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIw"
     "MCwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.ObhbG9tPgubnT6vB1DItA94UirK0ss3TO5hD2luzZz0d"
     "NPB_iegoW_QS0YhqI7YzUgcFQSmbDdTPrzIph4VcrLqvWmSSWqLrObqOWgh3sPqyuHcu70ty5SkKv4qLKCC6PnVC"
     "ip7dRHcqjS818_xGtWN5dPy9ENvvtRhg4gZ_OMbQbHRP2E99cxT7rjDjiI22A0VwR2diTIGmCvADD9YdTk-hZ5rc"
     "3Ykbhxxacxv3zMNA8-EbjVJuf2-N_D0wrGDVwhvNGvhFMhHw2l45fqTMzIHi7I_uZ6seLioixU4_OYFv4wulmzQ4"
     "U30xXLsVPIdHxhSzVugQha0l8UZGK8LKboNS83DC0ejRe77IFZ0C_6tglzyo5vkzB3COgpj5M1UzuB0GMKTuGcGb"
     "sZb3F3hhWvbl0O_SfWff56UUyQWOBB3NyIV8CFdggjkqxySv3FoRE0_MVJrFoUbmYNZ6W8rSa2p-Liuf44UMSmFA"
     "iEk6Eg4V1DJVp3hvmBk8m0Ge8sKb"},
    {"HS256",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImgiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.FrLMwesw2XRUFZf9AN6EvDtEWYPRHAEzkkwyR5oBoUk"},
    {"ES256 by hand",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.AVPnESgjC4RXGny8mSmu26RLsN4KY7"
     "RzJju0M-vSXnLbw29hJr6-hRhGwJYP9yLcGhsA4EMX98SiFCroJWj1JA"},
};

static const struct {
    const char *name, *token;
} public_bad[] = {
    {"RS256 key, header HS256, HMAC with PEM",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.1mOPuc7h95abOmAIP2i6T9tNzYXDPb"
     "K229S7w4gWDqM"},
    {"RS256 key, header RS256, HMAC with PEM",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.wmQdB3BiEpE30E-tGGsNvld7DpgPuq"
     "zUXECm-tdAAxc"},
    {"RS256 key, header HS256, HMAC with PEM without its last newline",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.kEl9BTp3frtAb9Rr73Y8PXK70dgKGn"
     "eZUjtDQ_GFtaI"},
    {"RS256 key, header RS256, HMAC with PEM without its last newline",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.7nG0kZO5ACzeE3Xe9Dh6XObgC1F3SR"
     "3NAebtBF44-7U"},
    {"RS256 key, header HS256, HMAC with DER",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.KEknTuEBqTgCTypeUwhWs3WaE6hFpF"
     "td_tlqpRQp0kw"},
    {"RS256 key, header RS256, HMAC with DER",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.aUZnkOYu1e4pU2i-h1JCaU4sSWfWC-"
     "QPPNs5KHP_D5I"},
    {"RS256 key, header HS256, HMAC with empty key",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.hQ2VuQyUPhk1xsKPWiLTnhj3lSGw7e"
     "HUHF4M1sTUXvM"},
    {"RS256 key, header RS256, HMAC with empty key",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.RO_ZiYKPhDpkLtLdmONMgP6ozOgZmm"
     "8PZ__K5DZRx6g"},
    {"RS256 key, header 'none', unsigned",
     "eyJhbGciOiAibm9uZSIsICJ0eXAiOiAiSldUIiwgImtpZCI6ICJyIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3"
     "NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"RS256 key, header 'None', unsigned",
     "eyJhbGciOiAiTm9uZSIsICJ0eXAiOiAiSldUIiwgImtpZCI6ICJyIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3"
     "NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"RS256 key, header '', unsigned",
     "eyJhbGciOiAiIiwgInR5cCI6ICJKV1QiLCAia2lkIjogInIifQ.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4N"
     "zIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"RS256 key, header 'RS256', unsigned",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"RS256 without exp",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImlzcyI6Imlzc3VlciIsI"
     "mF1ZCI6ImJlbGZyeSJ9.Hx_yiTs-FTlQ9g5FX_XJHQCqzXVPf6PydjllWavktqAbOmrI54qWk36a7BS-5wgC9DzC"
     "H79Bz9-yLcM9yu2ecE5qDZxQN4BWns1slVHhE3tgHdC8iSzJAta6QdgEm10EyAPF5Qojsv8boAMxJRgS8Ane8qbF"
     "_wDlOAmyKimya6JKTxaSS16vkPv0jVqcw7Sl5fLs2jRfUeAgtHOhg6JxqAmVgL1A3bE-ZvD_NuznO3aIafG1wtc6"
     "QOtP1AKvWZ-USqBN9XxxDupSRQN8J43_yfgPrym27OgF1Jsbq5Igd4PtuPMMsok5cdeSsadmsoI-hIMHN-_OQO4p"
     "ygymTkGXJQ"},
    {"RS256 alg missing",
     "eyJ0eXAiOiAiSldUIiwgImtpZCI6ICJyIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6"
     "ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.UjXWU48pzNMUeu3w4b0DkY2bl9Hd3wbbqGstYy6uq2GioEhx-aJ"
     "rpFFhYdSgHNw92Ph1KRUrqDrdWIN8JegEAxJXmmDvH_oGg2JC9BrEuTs_kT7U6x1yTe9at6lVYV6wzylOJx-8jjT"
     "eKYtHWME3_BPj9U2mvOmfgvfIsSJt9ALTN2tZNQH0Wr-CThe9sN-vliiHEA5x1AwCBS6Yf7e6AKHZjXcToAOMBt5"
     "k70HTdv1OjllxPSIWo-KJ0O8yF6H2Lr4ZxxTppNavTqn9Gxyt_i3frE0lJLpJ-BmZWME85Nr5jtD7epmqDXGc40V"
     "yv-3LQbRBjy2VAoprP7Rk8zf9CA"},
    {"ES256 key, header HS256, HMAC with PEM",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.jl0tpZz-HsMvL3PNVMQLPRCp8UZLiu"
     "Kj5DKBbwTuHNU"},
    {"ES256 key, header ES256, HMAC with PEM",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.eI1mUOstaTAhxzQs3kge3kM-wLfj9l"
     "r4uonM11LhV8Q"},
    {"ES256 key, header HS256, HMAC with PEM without its last newline",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.loOZOJPD6h7dyKZxC14dtM2YwzVgy9"
     "NNit60qfvGDcQ"},
    {"ES256 key, header ES256, HMAC with PEM without its last newline",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.s6QDMz-mWj3lxhCLCbPXpDQBYEsNsm"
     "3SztgEvzcIeMo"},
    {"ES256 key, header HS256, HMAC with DER",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.nEtXTIF-XDtRik5zUVHrSD9VRO0n_p"
     "Fq4Jigi5WG0cw"},
    {"ES256 key, header ES256, HMAC with DER",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.3lN5Ra_H50JAIRlctzmXeDmddpEAbA"
     "sn7ENKuRFD_Jw"},
    {"ES256 key, header HS256, HMAC with empty key",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.bmyjo0bZ1CeoQ-tNHk4uEivvbYw50U"
     "E-f4zaWJ6f6UY"},
    {"ES256 key, header ES256, HMAC with empty key",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.-K7c5ztMXpsn5UXz6hnwssP4BfAnxs"
     "Z90opUuaJAq6I"},
    {"ES256 key, header 'none', unsigned",
     "eyJhbGciOiAibm9uZSIsICJ0eXAiOiAiSldUIiwgImtpZCI6ICJlIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3"
     "NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"ES256 key, header 'None', unsigned",
     "eyJhbGciOiAiTm9uZSIsICJ0eXAiOiAiSldUIiwgImtpZCI6ICJlIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3"
     "NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"ES256 key, header '', unsigned",
     "eyJhbGciOiAiIiwgInR5cCI6ICJKV1QiLCAia2lkIjogImUifQ.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4N"
     "zIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"ES256 key, header 'ES256', unsigned",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"ES256 without exp",
     "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImlzcyI6Imlzc3VlciIsI"
     "mF1ZCI6ImJlbGZyeSJ9.zvHRrTbUEgez6XCY-ltwMA3HzZWdG_bwLCcNan3PIP7KpGWdJzG10jZxk1i7-3zMnSgD"
     "7uHLaVYxQg8LQ_1CjQ"},
    {"ES256 alg missing",
     "eyJ0eXAiOiAiSldUIiwgImtpZCI6ICJlIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6"
     "ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.XIvclCBQxAkKPmITTXYJUZZ2VHNF1XfWuJ4QXqnlduc6Czar6x4"
     "WsPTLOfN5FvBufdAHRlA-HzhLLbVZeUg5ZQ"},
    {"EdDSA key, header HS256, HMAC with PEM",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.W8gZbtTLLqvBEhpXKathC-3gtdCV6l"
     "4GbzUwS2gN0F4"},
    {"EdDSA key, header EdDSA, HMAC with PEM",
     "eyJhbGciOiAiRWREU0EiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.MrsAXC2lUMm_-rmNjE-xe9cfQH3xQZ"
     "Wy-hHyI0Z-M0c"},
    {"EdDSA key, header HS256, HMAC with PEM without its last newline",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.6x4bpQr6-N5zh7M8HfsNyyrZRO4E_H"
     "nNsFdhEweP_ms"},
    {"EdDSA key, header EdDSA, HMAC with PEM without its last newline",
     "eyJhbGciOiAiRWREU0EiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.oMFYSXqAWQIpQwrpXDVwC03vEZePHz"
     "c6-DQMwSMRIZA"},
    {"EdDSA key, header HS256, HMAC with DER",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.1YzIBuwDt4stJqIcfiGaEwb1Aq_Kx9"
     "QFOWtpdoyh2Ts"},
    {"EdDSA key, header EdDSA, HMAC with DER",
     "eyJhbGciOiAiRWREU0EiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.M4DK4e1ha0arySOlJ2sUOTqFrGJC05"
     "KkkSE31lN7qCQ"},
    {"EdDSA key, header HS256, HMAC with empty key",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.Qsx5X8zkzsaqDvlDGRVdJ-CyQ9o8mq"
     "9kk-qjyGPRphs"},
    {"EdDSA key, header EdDSA, HMAC with empty key",
     "eyJhbGciOiAiRWREU0EiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.1OrN2NolSOqLPPNA4hUwPAJy-CXLL1"
     "_lEypJoPt_qCM"},
    {"EdDSA key, header 'none', unsigned",
     "eyJhbGciOiAibm9uZSIsICJ0eXAiOiAiSldUIiwgImtpZCI6ICJkIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3"
     "NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"EdDSA key, header 'None', unsigned",
     "eyJhbGciOiAiTm9uZSIsICJ0eXAiOiAiSldUIiwgImtpZCI6ICJkIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3"
     "NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"EdDSA key, header '', unsigned",
     "eyJhbGciOiAiIiwgInR5cCI6ICJKV1QiLCAia2lkIjogImQifQ.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4N"
     "zIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"EdDSA key, header 'EdDSA', unsigned",
     "eyJhbGciOiAiRWREU0EiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"EdDSA without exp",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImlzcyI6Imlzc3VlciIsI"
     "mF1ZCI6ImJlbGZyeSJ9.glpu8z2jkM9dc5jTH1FxkG3hHNXm-3FvQVpi3eYM2EaR_Nh2buvNR4s7EJ_L3jzkdQKJ"
     "LnBgvKRbAJWaioPTBQ"},
    {"EdDSA alg missing",
     "eyJ0eXAiOiAiSldUIiwgImtpZCI6ICJkIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6"
     "ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.jzyL03Uj49w6R8K0bUxdhY-27-ySjkoR1d6qUGE9lxCcifV0swN"
     "Zra_bTEwMAs_hNt55CT-veNsiLpWMxwvuCQ"},
    {"kid of RS256, signed with ES256",
     "eyJhbGciOiJFUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.XvL8p3_PFWUhLu1yodT7IGg35LZzlgq8a6DFji5knWApS"
     "_zooQFnKr9UQBmk-zW7QcT8PZ0xio1CqX9JMzA2QA"},
    {"kid and alg of RS256, signed with ES256",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.c7iinw5Gh8Vw0L3Leo9jA2z_4T8c5U"
     "Pf7AhzTiUqNVTmWQo-tOPnhN3lDLAjNbVYHU2ubwZQhrEck2G-pxEQrg"},
    {"kid of RS256, signed with EdDSA",
     "eyJhbGciOiJFZERTQSIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.ganjYI7ihIsdvnNve9PSPLGBw_c6ye2pSXA1lwA2KABPo"
     "-S70XxHugJhnQFXjGzDHhGwHnzhR6PMWAo6kDq8Aw"},
    {"kid and alg of RS256, signed with EdDSA",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.6SpAyNwa1QLElvLI-KgQSv7iv6Ltjm"
     "iMxx1OPuJrP1vFDTjiQWJZJP6UPcSpNWmCNapH1HiOG07CbtjquvMsAw"},
    {"kid of RS256, signed with HS256",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.jN4s2yQkV9pp-0lT3WrQvU1xFMDvO_fq3PZIV6QR2Sk"},
    {"kid and alg of RS256, signed with HS256",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.USdvsKhD2pQUoc7_s03KDnl9r3X49F"
     "vjsQqmcT1AUMs"},
    {"kid of ES256, signed with RS256",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6ImUiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.lxwtyL8F1RPcgKhlxOFEoGtGBbKZujN16svBOXFLhH191"
     "frK77CSUVI9ionLzl9Rgb8l5bems27RmNxM0YtJOce_msNOob5eXwUZmVhInAHs49J-m7DEmXOe2a-dz47TrFeC0"
     "pLXTeutfymJW6XToMeuinJWYid8bg82s58RgDa1tTYxwgHdN-rNRgIRhZUkSs0UJoTDAgJWQsQO74d5UkO-v0ixJ"
     "B8rVgb04lLUvClHc8Rf7uV7lZoqiKVnlnY7nDfK5gk2aos172HmWq1PtFdRhmvfCPnRfe3s4JDpDmA0DXfBCyWEA"
     "UEh7M38D257pLF8hQE6SApzusZy4F686g"},
    {"kid and alg of ES256, signed with RS256",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.QZu4qfDngnB8D0B2wxNJbxkr57RfHj"
     "1bNQJHw2HxIEXwwt_ArHcsosn59HG4tUfpH3BHCFCCqHO0t_UMdtBn6rG2XfkBiFV6uZiSeZRp9mTlPBR4fAyJoH"
     "oeilMYvZc1IG5U2jlGxTeoIpnCcuQdvUy2jeFf3FvS_o35Y96manOUiltVHtSZmIdUHYpT1EAq06DpBqxgDBnK5j"
     "0kqFnNizNNmG5G0LCANhZlN8rOc9WMxrfwZhoqnWP1p9gn4nyigVAQ_8_N-cFdz5AkDtOToHsJu6kx-D_7oCTgVh"
     "x2mdDIyq3zxdsNwpX8h5X6dTEqVaJ8A_GvyxFR3gOsoojvxw"},
    {"kid of ES256, signed with EdDSA",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImUiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.H3LYbcJtUMklI8ZfRQ3MHgYISHe3icgqVwIqI5UMZJ68T"
     "yyODNKEsZHUm5FRx0MzMfa9R_5K9674lKkBf3gQBw"},
    {"kid and alg of ES256, signed with EdDSA",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.Af_pzRU76Q-1JvmuYRpCVRE62af-uL"
     "BfQLBrh0zo148BXs5ie1qw1rvBgUcFt0YaULg_Ngg9IOrJ38NCwQ74DA"},
    {"kid of ES256, signed with HS256",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImUiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.jaokP8T2WiH5kKIjJThNmYdMze9g-fyLxZrQgzvvlF4"},
    {"kid and alg of ES256, signed with HS256",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.GHr5zKSKaxr06Rk0euvk4NuFSmSsTx"
     "VLX8LpDgLcBsQ"},
    {"kid of EdDSA, signed with RS256",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.zXt04mMo-bfmsDEj4xGK5E2iKay89JqvfPdeOiaLQPXS3"
     "VJ-FoI6XGNnTszbS4SAXU401HseiOy7tCTyuZiKuzAKP8j2oCoEP6sM9FMzlXl-j_4J3WPR8_U1NBRdD5NOA1GIw"
     "uAKEblzaCrEZ6RRv6eh6NnFV1Ao_cHoxf5E6pWF1kNE1WOCeO0UkWTxHCsqG8_lmh-yXWq9VcEnxSTZiOhmt_5iR"
     "nxbvhR6gVDvBZw64zRKZhVsHL1cER8KfBNj78Y0rxDIIbJD6fzWR0RrxfljYTk0GFr-OTP0AlTrsjMVtZtGpkO0a"
     "q11LnrSEfGzNnShi3fYARfwsfV7qWbdJQ"},
    {"kid and alg of EdDSA, signed with RS256",
     "eyJhbGciOiAiRWREU0EiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.FQbAxFRNQzFG-7Ju98gmvscvOUvOHC"
     "p3F7T0BCXIqLM0UBaGNDClW4n8Q8MDJ0czkjyLZrRZCJQ7ZXt03x7ZmxW0a1_P8Dks2lYCWhVpgC0vIubSD5bq1_"
     "7GRyHOfL1Av-fIJQH9g8ZRksyTwmpsr7fnU5ztE3GrbOq197qOJmGwcEt138s7a1HEHtbg3UIGnS81LgF7qayhyE"
     "zYF61Oaf7b20rcNGyiR63NJru-Z03o1_IojKP5v6zi4XT-vd2r18F5gSoQe1TN6wQeLyYbOW2Yd-uUHFKYzkP8_U"
     "SqHIAOqGjNbNGbQWXDlWekIEjaETCOtc5l4ZeRag_lBMu1-A"},
    {"kid of EdDSA, signed with ES256",
     "eyJhbGciOiJFUzI1NiIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.kjrfwv7li1xjiaLkYVIyqNfyldRBXrvWb4b7XvxkE00_B"
     "yjO9YzO0Bze6Sopr-4kuVA_I5PuO7U-7sTqEo2IIw"},
    {"kid and alg of EdDSA, signed with ES256",
     "eyJhbGciOiAiRWREU0EiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.tHB3GKX1UFi7fIV2igPqJIA7FobJDH"
     "SxeVixzgrITK1VGT8a6opjoEh_loNBpQ809OwJO8BI_64JqZVuO6GkBA"},
    {"kid of EdDSA, signed with HS256",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.j1knPjppNA1mkhENyib6Ay59Qb7bGq6_ktpCgo8mNsk"},
    {"kid and alg of EdDSA, signed with HS256",
     "eyJhbGciOiAiRWREU0EiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.bpQPxziIfflKrQE8-H4cJSN9M1dxMe"
     "wJWtdeY5Szy9A"},
    {"kid of HS256, signed with RS256",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6ImgiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.ue_B7sprmzdts7Gxt0K6dFIdgDuIkUXns20xiVM5JWlO9"
     "lX2Fi2Kgmh0eSoMhQZwF9R6PocdzkZtnFnPILG8P0icfkudn0kJFVYHyEC6Lq3d9gG5jBVol064DnzmPEJDD8_eQ"
     "JhZgis4lbDLNoGp5ENN6ZC66obPCtxC1E75nRyCBuqcJjl2hLqMZzKlRYHKZjedpyzL4LratGcM6HmqIPlJTcR7Z"
     "yzfc_uyiQ9Ua5RKr4-Ckk-vs9RIrOO4GdQNVU_geGZO9ZZSvb9d9ckBCypEhKHrkvOgfmfKpdFGKih2JVavl1nvb"
     "wRMAdJwNWAptV1cpRUA2crboOMgea1yyg"},
    {"kid and alg of HS256, signed with RS256",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiaCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.V_2KczNeGD180elr3letGP4kKtlhFX"
     "dCEc0kZtEdJUz8fsDn1LSC5sIzJCaVd9MCg4IwFSsY3DqXxB-OVYlOCGVW2wAOyOYXdcsBVigpdG8QUGwNvFcH4W"
     "lXiNYJ01W7H93WOJxDqvbIN6HDxcd88JSQTELl8LgAbtuvKzhsh22j1d5SJ-nzOqLl-DGESh-1AET0hKoS0NlmSB"
     "iOcUBeMucK8apc1IwLBFrFa0NPHm_cXCncUzIp5CsFXtBx7ZPPXAsyXNIdRfKQM_qHkh2NEdMQIoK9xjCp4FzoXi"
     "mLVbXK68bba_0Sj7zPQKgWgpUq8VdCoA6O9OirG8zfABaCxQ"},
    {"kid of HS256, signed with ES256",
     "eyJhbGciOiJFUzI1NiIsImtpZCI6ImgiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.r-EkLbRpkKEXbES5aXkv2Zxgl6rUBBJilhifXVBsKEgnW"
     "YYfkclMEsX3zHjB2nZukiywrns6czRJaM5pj0DEmA"},
    {"kid and alg of HS256, signed with ES256",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiaCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.vL-mmwWuS8yLhwdtSA45ovSIY2sjNc"
     "RgXLttvS2YKYCvsGd_pm0jjy4CiZVUGVhObM45k-o-d2xNvxjwzfYv1g"},
    {"kid of HS256, signed with EdDSA",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImgiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.Cz-8hnjEvDDYljyMwythwQQ0j5vXTmOsHOOM0HSfXIlr8"
     "u1CwksHqBGLev41B8DBIVwZ5SaRhwLXRGOEfS1tBQ"},
    {"kid and alg of HS256, signed with EdDSA",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiaCJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.x4vytQwvMcSfXCGymdCDFnKsEJk0Qc"
     "S_ekxPH4Dok0qAXdDCudao_WcePG6xa8K6-NBcPCs-o84iOl5weQLxCA"},
    {"RS384 with the RS256 key",
     "eyJhbGciOiJSUzM4NCIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.MUIGtkyUAmOatDEOveeUOVJ1hieFPZAppXfffCMatjr9N"
     "NosMV0FSEQcxrF6Hy5kIZvfE1DAxq99ITz8GqCEIYYicz0f8s0LEBMnI2Gyd-6z54GKj7pYnirzAKkSolVJA8ogV"
     "bkLBMKoX-DS24itQS5xisCL245NYZDsakJMmuYAcY1DiHUE4QQ3UwfbEk_jQ5x1AA5wAAmAeiT-TIdKMbebFU-IH"
     "61lIaGCQKx8rs2Yud9m90UYO3mPeLB-cGOcb1uS9MHuR814l6APtzb9jJQvFUEVH7V1sNGoeESo9tzYrdJQx0sYG"
     "0OAq5JUKMvfn49Od4IkzuF-8WebvFjBMQ"},
    {"RS512 with the RS256 key",
     "eyJhbGciOiJSUzUxMiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.bj40sJmS5yE0L-REEEuYnh2SkgWEOFv6ILxEC1MDRvMi3"
     "QxXu0J7LREO6i7E1ZaNL6uhX0B9gEl-gWv7_J-0kW3fPXtqssQojT6qgIzcbjzkE76BigBIq60S9Hbo9GRyrzWov"
     "SrDrlNenpF0Orss3Q3iLgextbnDrW44lOaNJWlo4aELNlviEXmJyobg8gza7QsEQOVCcoUf41bWAnNNESyVlAGli"
     "wIhbfQCOCG1DAcPkIlc643RBezelvaAiEHce56UL2h20GSyevoiJLc1TNlwkXrjw_aVaE7_HB8V0PcdmNlwXGSqh"
     "_DHIct1RBORvITRm7hWkrmrr2Z5u6OLvA"},
    {"PS256 with the RS256 key",
     "eyJhbGciOiJQUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.XHN2F8AkAU6V_XYBnCm991ERpwR0hoHWo5h0jdNFXIz4l"
     "EOlglg0Ojy5-2YZERqAqJ01Wt9CEi6VzH2weeKX2SuZxIrfBdeykj_bEVV5o7C6R6LNlDQLKDhju9-QE9pxIWHkL"
     "KeLt3HhGgGssaC1iqlRrkmLIxYHXVKRTKxUmOzI3K-jodEpwW-Xv6F8n5YixUN5dwPPIjo0UD4ZCSMpCHw9nakYB"
     "y1dtEtdS_yIJxTLCgetJ913SfELOAMaPewsXp2HGygD2D5Gr5scndXV6Jn_dlNPJNO3-R3Eo3yvIZpqaGFmrwlnX"
     "R64GtrkhYnZOFbX3Nmbgiy7cvsS107FYQ"},
    {"PS384 with the RS256 key",
     "eyJhbGciOiJQUzM4NCIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.OfRRseVkGrkUVXtfnsPzvI00cGljtsai5Fr_Zca_f47ZG"
     "vAVP-N2zvnx2VJuU2HxE-8j3mdVDCMBm1dQkkH8EdmXx-U8THDdX6L7BfbfG8AQQ9sb7Le5WR-w1lcZnlGoU3FjW"
     "3XVGoicylcCuOJWYWlugy64tIDr12BhSATvnKlvqFnUR4smGUaAtrcYdpSeT44qHEigtpj6yMlDbLqWUSuUTefeU"
     "KN5PyjvsFBiRHzJJwqnVcbMU3sfEbOV5Po6h8VWLqp_b_ExRQkhTJ_t1ikE2dZ3ZedTjIjtCPuhJ3GNXkBve_Vye"
     "yLjFdogjK7Am-zflzVT4cYBLSNebzjuIw"},
    {"PS512 with the RS256 key",
     "eyJhbGciOiJQUzUxMiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.LD2UslomZcx5_xWR0Vy4YV3IdCsfoilVH8kfyhP8X9qOY"
     "Yb0ttXutfXbIqn-lKqIAtt3aNTOgyPls5XO9Cms68rmMihkJwnJHI4YGpUtlIJZ880XGqQML_dnGTA6i1hftf2po"
     "SarWFIeWtuocibjt4KTnX-vREm5nMAJRuNIb85srD752TPDqZC65UZQftrMXQsxedMg7mlsrloYV6smLEL0h31wZ"
     "93r5R99HhQIwlpJikVgjXyAvocEsXsOA5f985-z_-viqIrF_8Gw5NT8jeU3WXqJcMhva_XCCNt2TbvyTdfKD1kWk"
     "hcNBjfULk8JFE4emCHR9Hdnfg8Fw-wmtw"},
    {"RS256 in name, PSS in truth",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.kNetnPDDiG4ZMF1xAN5umL6g3KLYDI"
     "v-g4O6WrQOGtlcLVCIYf5PoM7h749LMHt3NjqzAY2eCSpcc2oqAi2j0Odt5YkuKsLWCXlwsxVHT0hw6eK2eq0Jah"
     "Ryc5OYoBvW2lZbV_L4E2mJiMDPyj2x5WH_2vM5ohh0qXoqUwK985wAg402XdHlLaRBBbrcey1PYkVpQOJWvRs3Du"
     "9agAkRzCSByPX3rhh7u3eRZvqKspxg4nL6BRDgt7D6kcEgMfCMRdcnk5WxUpwpDqPAoJ9VF94NeoB0TM9yzQRcnb"
     "XzpKUXCg3l-BERb_vG1kR4ZoxQarW6kdJ1lJP_PX_gok8yzQ"},
    {"RS256 in name, SHA-512 in truth",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.OClmQHKzH7yD2lJ1lUcecfaEC0XSlp"
     "JS5LukyFp5qpPVFpX1rrEM-ZB92NGTmeEIl5vL61ud_Sr3WIdIbzO80Ez1wxm0-vWdxOBbeAdKkvxbMeL6fwk4k6"
     "TuekPKgUN2F4HkXMP2WTOmd6P25SKTaZw7hrsYuuNFJC6IGjqWmIjCUkQNkLkg-5M9bSfRZKJj4sXhuqu17OgrTh"
     "avniJzPPmbbe14aAmkMBzoPQJSTyMuJzNVwNtGLlGcJw4vuY_EPYzT0EsvsjECoogX3zZXNSbN9j0ljhpql82koZ"
     "2HUy_i28s81n_NIjrrrDh0K1RQH338knWU2iLeXlRUMarA2A"},
    {"another RSA key",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.CUJl1I_U3gsLlmPGoQY_h3ajONqoORHPnBeVNFZQlSAA6"
     "nI4Azwo2fFUWIJs0wBiSV-JVMi4aKZvw73np84Yujs0rsfHyiWG4-6IvGEbCBueY3PzF43aB1VMDB0mBSHIAivLp"
     "da4mcbTL8QVrNqMjF0xURGpFdtqrBHZAQgVAqX0iAGnY7hVgYIN5ikQ23UC_zYzHAvkIp4aOC1TDhF2ydxM1EhwQ"
     "I8UwE3I6MhN6F8rWmicXWfm4MAKie0Gxnlb0jdx5-ms2DQpCcpWKfn8YhG--hYp3qlQbvyN5r4_bFlN_TWAfFggp"
     "DGldf0Oq_P8XyyDJaP5qmAYB6pTG1IvOw"},
    {"another RSA key, longer",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.d7C7sbpBZc38d1_CDGLkr0wnrnfxJcv5MmEfRc9aOvUqf"
     "hh3p1uQupctchef6L-z9713P5mgOeIZSXHvIbVo4xou5IpheHtoxedaT6KTn1MFfEOPhFuMrBigBW3MC2Z60Jmbx"
     "gqlDy0yYec9EUgGa1JReQW8bcn5ixNxYsANcQMsu1Ki_bxuyTQdhkX2Jfkx5OLAeZnWnutWdIfV0QkUhPU4tkUlK"
     "1Cz8fL105ApxzNonI08IfMAtqphZOwmgsgbuiCfJSMv7wP2qEMRJvl72TIDXHV0KpL1lnbwNur2H8f1j65A153hJ"
     "ZzUSreHbclBqENzF8oc78dU-LK15ameJlT7qGtZXMoh-p-NfhiUTxO1USSP22o4uP4t3lBcPKKk9iyNd5l73S4DU"
     "ui0d8gFhruZwgdAQ7l8h4SGlDRkWPdOJfjijxzCgPwWl6-zR6VKfnPhbElsHeHP2cc6hFTNYseH8pBHvD64Wr3Vs"
     "uo06YtpQtz809gUNX2mvEMz_7M5"},
    {"another P-256 key",
     "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.XXjqasbcRVcrGXrzyA9bYuQZlM4zHHnFoHv4AHynBx2A5"
     "WkQyF2YIXiL-xa1ahhUuU1as6Lgrm6WUVNQSpyPog"},
    {"another Ed25519 key",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.jJrM2VmPPEHHcbCTg0Mbgbp8V30u3_m1zBbv3b9bMw9_I"
     "Nf0dKFkT9JENw4a0oJvQ0S5QaPA-ZiQnBKNlwlMCQ"},
    {"ES384",
     "eyJhbGciOiJFUzM4NCIsImtpZCI6ImUiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.UPOFAjQZCbY6Wow4pnIgfGQblvj1A0AJVlXAzfeuOfbIQ"
     "v0vw9H02e0c8OXqY6aSwR0ryE7GfwRRmUuluHnQZfNIlX_mWBcVge94vzfeaxMvSWgqoeoO0TiF1iOdVYJO"},
    {"Ed448",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.j0l24xpebPcMHBit54985lKujTkE9OXyf44ZpAd5zxmme"
     "yTPecHjE-8lSqoXPmLMCtwSNXRgTrEADv_QQknpXIhyMwfGMQfNvrDHccAdeUX1aDuo82pSfAoWnlE3pN-C6wo4U"
     "lRuKePZZWCHgxc5mRgA"},
    {"ES256 signature in DER",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.MEUCIAFT5xEoIwuEVxp8vJkprtukS7"
     "DeCmO0cyY7tDPr0l5yAiEA28NvYSa-voUYRsCWD_ci3BobAOBDF_fEohQq6CVo9SQ"},
    {"ES256 signature zeros",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
    {"ES256 signature r and s of n",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9._____wAAAAD__________7zm-q2nF5"
     "6E87nKwvxjJVH_____AAAAAP__________vOb6racXnoTzucrC_GMlUQ"},
    {"ES256 signature r zero",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAADbw29hJr6-hRhGwJYP9yLcGhsA4EMX98SiFCroJWj1JA"},
    {"ES256 signature s zero",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.AVPnESgjC4RXGny8mSmu26RLsN4KY7"
     "RzJju0M-vSXnIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
    {"ES256 signature s of n",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.AVPnESgjC4RXGny8mSmu26RLsN4KY7"
     "RzJju0M-vSXnL_____AAAAAP__________vOb6racXnoTzucrC_GMlUQ"},
    {"ES256 signature r of n",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9._____wAAAAD__________7zm-q2nF5"
     "6E87nKwvxjJVHbw29hJr6-hRhGwJYP9yLcGhsA4EMX98SiFCroJWj1JA"},
    {"ES256 signature 63 bytes",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.AVPnESgjC4RXGny8mSmu26RLsN4KY7"
     "RzJju0M-vSXnLbw29hJr6-hRhGwJYP9yLcGhsA4EMX98SiFCroJWj1"},
    {"ES256 signature 65 bytes",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.AVPnESgjC4RXGny8mSmu26RLsN4KY7"
     "RzJju0M-vSXnLbw29hJr6-hRhGwJYP9yLcGhsA4EMX98SiFCroJWj1JAA"},
    {"ES256 signature 65 bytes, zero first",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.AAFT5xEoIwuEVxp8vJkprtukS7DeCm"
     "O0cyY7tDPr0l5y28NvYSa-voUYRsCWD_ci3BobAOBDF_fEohQq6CVo9SQ"},
    {"ES256 signature r and s changed over",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.28NvYSa-voUYRsCWD_ci3BobAOBDF_"
     "fEohQq6CVo9SQBU-cRKCMLhFcafLyZKa7bpEuw3gpjtHMmO7Qz69Jecg"},
    {"ES256 signature 96 bytes",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.AAAAAAAAAAAAAAAAAAAAAAFT5xEoIw"
     "uEVxp8vJkprtukS7DeCmO0cyY7tDPr0l5yAAAAAAAAAAAAAAAAAAAAANvDb2Emvr6FGEbAlg_3ItwaGwDgQxf3xK"
     "IUKuglaPUk"},
    {"ES256 signature none",
     "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiZSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"EdDSA s + L",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.jzyL03Uj49w6R8K0bUxdhY-27-ySjkoR1d6qUGE9lxCJX"
     "evRzWZrBYZ4RO_q-632Nt55CT-veNsiLpWMxwvuGQ"},
    {"EdDSA zeros",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
    {"EdDSA one byte more",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.jzyL03Uj49w6R8K0bUxdhY-27-ySjkoR1d6qUGE9lxCci"
     "fV0swNZra_bTEwMAs_hNt55CT-veNsiLpWMxwvuCQA"},
    {"RS256 zero first",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.AFI11lOPKczTFHrt8OG9A5GNm5fR3d8G26hrLWMurqtho"
     "qBIcfmia6RRYWHUoBzcPdj4dSkVK6g63ViDfCXoBAMSV5pg7x_6BoNiQvQaxLk7P5E-1Osdck3vWrepVWFesM8pT"
     "icfvI403imLR1jBN_wT4_VNprzpn4L3yLEibfQC0zdrWTUB9Fq_gk4XvbDfr5YohxAOcdQMAgUumH-3ugCh2Y13E"
     "6ADjAbeZO9B03b9To5ZcT0iFqPiidDvMheh9i6-GccU6aTWr06p_Rscrf4t36xNJSS6SfgZmVjBPOTa-Y7Q-3qZq"
     "g1xnONFcr_ty0G0QY8tlQKKaz-0ZPM3_Qg"},
    {"RS256 one byte more",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.UjXWU48pzNMUeu3w4b0DkY2bl9Hd3wbbqGstYy6uq2Gio"
     "Ehx-aJrpFFhYdSgHNw92Ph1KRUrqDrdWIN8JegEAxJXmmDvH_oGg2JC9BrEuTs_kT7U6x1yTe9at6lVYV6wzylOJ"
     "x-8jjTeKYtHWME3_BPj9U2mvOmfgvfIsSJt9ALTN2tZNQH0Wr-CThe9sN-vliiHEA5x1AwCBS6Yf7e6AKHZjXcTo"
     "AOMBt5k70HTdv1OjllxPSIWo-KJ0O8yF6H2Lr4ZxxTppNavTqn9Gxyt_i3frE0lJLpJ-BmZWME85Nr5jtD7epmqD"
     "XGc40Vyv-3LQbRBjy2VAoprP7Rk8zf9CAA"},
    {"RS256 zeros",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
    {"RS256 plus n",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.ASPaC1Q1DN3fkbQJmUKNW5ZXcxi8Exk__fGFUnKQS--TT"
     "5t211SEkDMHakGG9Sfh5hHW-DgJIPKV5O1unwG9tqbPUph1lI_akJFS6JR4dAXSrMS2H5E90TQQ3FOIPgNsWMLIA"
     "SjCOKwKhRHn2t8ucIaV8gOxsUNNsluJFQ7AQ7rFS9AGyMh9K9J_NKk8SMoGk_kX8lIw8qqXVTdOOS1KqWdp8vegl"
     "W1ywNvM-sc_94LLV7nuXWARbqjM6SLU-uR6ZAKpmm9tQ5gPGM6j_zjCJc8kciEDLyBSL3mU71XdokLCywYyr0EH0"
     "uplsgDYSi-6sWIh9GBN_PXW9bz_2XLxc5M"},
    {"RS256 of 1,100 bytes",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwM"
     "CwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAA"},
    {"header jku \"https://evil.example/keys\"",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciIsICJqa3UiOiAiaHR0cHM6Ly9ldmlsLmV4"
     "YW1wbGUva2V5cyJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXV"
     "kIjogImJlbGZyeSJ9.N41ugwPL7QF1MZxb5IKTYAULVh_4BVLe5ZHKp66YxDlYKO0OfwPuJTIKAWg1-jBTrX-FDI"
     "HG1ItJp1_J2Hqt1a2PdWmxNaM_gnBhY28iSwSFPGoqINAFTjYSHNT9Q3TtWIY3_zKIOCTgXbKZDfV8qMlDd-1MDY"
     "i1IbiPc27wCtLdoSI7Eppu51tzwk-lKI1PVmUTTfPMe0jauZZ7ArYaX8vUDW4eRbbFyh9e4QdafrTJUVxH76U1Kg"
     "OC7gz51cOSNBe_ILcwHUqHHgJB1XdCp165ger1CX3uNY5ptgThaFsuazy2RSFR4Ld9DGK0eCSkWh_fwKKNH215lf"
     "RJ1CuESg"},
    {"header x5u \"https://evil.example/c\"",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciIsICJ4NXUiOiAiaHR0cHM6Ly9ldmlsLmV4"
     "YW1wbGUvYyJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjo"
     "gImJlbGZyeSJ9.dLzRJ-EAQsI3oakoGzXsxN324sz-73ddOlwEiGL0_nhUqZDP9DvRB5Q3k3cH5E6aDhySxhmrYY"
     "-cRGtQM6385bjH10_nnSXJnKnsgnV8ePSJ8Fvi4zg2Zna87Eih0K3TDxBdnoxar-5PeZmYumdnEXAlNMAXU9TQ4n"
     "ZpiNDMG4VeyQMIgYF2CSezzNuTDma0Tp9yKTXjA4ypVJjXGZ-_VVrmX9w-1f5S8BnmccLuPDVKZjYCSY3vqgQsoY"
     "mYSmSXb2uKNhBt8TgX-uo1AOA4rZx_7MQTmGms1pkakr2o8FsCW9y-6KnF2GtKyAXWZRfknP24TbPIeKrSiD4Ien"
     "1HkQ"},
    {"header x5c [\"AAAA\"]",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciIsICJ4NWMiOiBbIkFBQUEiXX0.eyJzdWIi"
     "OiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.i4VLPaf"
     "pYWOBFyX8pvqDKfW0iS9cJVkVHs84R238Z2CoY0JoEtrO05qC5vyD8ZwEYInIPoTv_LVN-_YhZHphdDouATIyQA1"
     "-CfJb_0p3mzf4StSWGWUoMAGyDglz_vbV1Q1FzAwb56fcBrYyNeJAqJD2ZMYBUOuL8_Ey8oRINZj_MVqCCXZ3kBw"
     "E8Xwfv-fEltaZgRXkjWh70Tq4tJh2GPvxnCNOaDVMHHmynOCHZSW7nwiwCQdoETd1XDMOU90ysVFBDv1CTY59cn3"
     "kFv1FVZJrCes1Z2CCrtbbM8sAROC16dDTg4yDc5Chg9yyT0Marou4dbxtQfUa-R2X9VIh9Q"},
    {"header jwk {\"kty\": \"RSA\", \"key_ops\": [\"verify\"], \"n",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciIsICJqd2siOiB7Imt0eSI6ICJSU0EiLCAi"
     "a2V5X29wcyI6IFsidmVyaWZ5Il0sICJuIjogIjA1ZHU3VHl1RjRGTS1oVVhZME9yU2s1WVNZWkh1OVVGa3E4NlJG"
     "ZTdTaExhQkphVnJIazMxZ0lFOXNHb005Y1MxdENweTgtbnBGczdZQXplZnZCS2c1bXB6UnR4dlNEWVpMRmoyeS1q"
     "N3JDRmJpUlV3YWFvVGFEVHpMaC03YVNVQk8xbXRzNm11cE00Q254b3F5V20yeXF3Y2JQYzUyM2F6emJ5WW9LVERl"
     "Z2ZNTnJXdFVGMG1ZWnh5RFNfR0VxRGdDSFgxaFBxbzd5bVoxWmVLSElLVnM4Sm1WbzMtZFUxSWZEUHBfLV9CYzNT"
     "OFBEeldseDdFTTZfWjRtVUJRa1ljVHBlQXJSelFVZGxPcFMtdDlkQnVwZnJSd1lKUlh4RWJCb19Xc25CZXlLYWk0"
     "azh0Uy1IWnI1Wkx6cS1EUWdqOW5pbElTSEl5eFdaNmM5cTZEemdndyIsICJlIjogIkFRQUIifX0.eyJzdWIiOiAi"
     "dTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.YGcWbZfHKVg"
     "o51K9DL3PZ_iUTW9i_EEMKaNieXH6G2TbAkOHdjTFOkbmhvFoWY9U-_-njEFbKjIKtMptfoMOUgwU58BNrsFvysH"
     "YI8yEwyklLPLgMA3rXj7SqlzUGt58LrFQP_PMw9TP5ebYY9AWoWmg0IvYVvFUJkK0_rVIzpxfmStZkCSJNjc8cDc"
     "ky8iGj3cyCpj41I7ZuO2u2BC-UlVlrRXV2wcmcI5tq0Q_70IhDiSlTCuMLoUVsNnymCDuIo_LXNLoDrROu9Le9Y8"
     "Mvcyyh_kWAuClilUtpXlE72xy3W1IvNRh_j-H98TTe1VmdC7CEPnC0i7OfFNrjrILmw"},
    {"header crit [\"exp\"]",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciIsICJjcml0IjogWyJleHAiXX0.eyJzdWIi"
     "OiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.SGVnxuv"
     "yDrvIWrVzc0itSzLgYlTzm4pI3McvA5X7tzJ4wRuXjlVYzSgco47AQhnwRBvnJPRaexKMzZueHYLLNPQ2tMU3p8f"
     "bFpF5KcYq9uHqA6W-qouLcgwKH-L4bGoXJ3VdiF41wOoGJthpAvy9XQPbVyx_I6NHCQhRz0OCK0sa5tDjhvdzRDC"
     "dcq7PeZIV2hDdw1pnq6rRptMbh0uCwOR8B4ZYypob6PHu6tEoKbd-kdKOKzsNYUhLrehE2O-BFHx6mDAnq2iGINw"
     "IXE_8blFIjfUwpS-izQ8ndGIgARhS_PAQA55L5FKyD3DhY2EEvzZhSfBNy2C0PEcJi5fZ6w"},
    {"header crit []",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciIsICJjcml0IjogW119.eyJzdWIiOiAidTE"
     "iLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.L7ixhYz0LuhMkQ"
     "mfyHhOK7MEI6D-7GpFNUl_uErmo8NJUzdDTlMFspt94ZFyFd7M0KEuvE97GBwkh6lRESizyO6tvbi6jPrSukd-VJ"
     "-HI2sVjHhKWsgAAtqEfhHNDSMIHLmDx40dGj3fNaZgOXnF-G6uAQIkrU-VdIajWHtVXPf-7G60jhNelH239t4gAN"
     "dFL5VuEbYUgyeKY3ai1XbWSFXyhZtfWImhhBTC-m-sEMsAcEFyxjpGWcQ1o7EplD4YYwmscqj0MFeLBIpuFi0GuO"
     "PJ6-1HAPfVglB3YzzyKh27PYSfSDZATOfn0s2Jid7uULjpAiEX2CclxSVe47egZg"},
    {"header crit null",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciIsICJjcml0IjogbnVsbH0.eyJzdWIiOiAi"
     "dTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.zREA-KFwDfL"
     "2vrm-taI5ILidZQm8UreCjDp-3H2n2-1Ee1b1q29iKbljdiNQfNXKyCQuVvBShE1GlrKk9XgNuPW3FTVh5hh0DLS"
     "ZTN7KtZigCNAV91ONxtdtACh6L_YPvEGj8ly0SjGte2ycOzXOHefgNDazrp21kJjoBj0mvoq-bERTLLxG7NbCqfV"
     "m1evrlGEFqWMfQKKE4ggfgWtlcVWNFxWXHlECntXLDKeRA5G96gzcMepp1MkMOnLdfBfX2WgGswKndBYcuDE2FSE"
     "vvlE5k5b0ZXL42JbE7UTehEoBlgHm2FpC9hIsCeh7jct8z-4qLT33w4-jNq9OxCgodw"},
    {"header b64 false",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciIsICJiNjQiOiBmYWxzZX0.eyJzdWIiOiAi"
     "dTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.RP2zueun5Dh"
     "bhfrPV9qIbREKGdAmTnqTcqD2G-tsl_HnqN6oS-6seVMakb28GvcViA1SlULkw6GMY_L8gsUbIBmJW6UdYh391MY"
     "rYNCBkyPeLVQkKJvF_1TbUsSQTLp4m-ivNu-Nrc7PqNmnKzNkpxPy4pNbJOxKuscbeDUmd_BOzKYoZRtqFoVYRBz"
     "pTiEKPY-GAPi3cdLIlsqtcXB7ZXf_BOvmZg5WOF7_sCw7xNFZtMjeG2nO1ru82P7c9pIKQkNAi-Op2NFgDib29Th"
     "b33Diquji3_CuqslyWJnJ8O7pJcmc3cb3cng0pF4LyDdtV62XoTN0qrzpse4d_Z4txg"},
    {"header zip \"DEF\"",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciIsICJ6aXAiOiAiREVGIn0.eyJzdWIiOiAi"
     "dTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.z9AgoDbQAbd"
     "zoOp7iJ0F3Cjbugw_oVUiimZrUieepsiO7d4ndd7VjTLeaWzbYZ2RyNj0kShhd8sWL99XzH3hk6CuB3bUsd18DtR"
     "tWMty1i28VNo5I3DFsk1eZrVBkXaedT6DPHDG4nBn2YuzBsVy-a_nwOKWFWoUpptLwzGelomH9gN0Q8O-ahocs2n"
     "0fUobLgAzvH-Kvt4r0Omaj39bNBE7KMs2nnX6lRqOYKCxboFBJ4lD8OPN14MJm1Qioqa0ikVaSo_3XAK2jRh2mA8"
     "nJ9AEj2KndKgV69aqwD8CJQjgY7tSG7qbjiPfOv9X8FB94roKeKQrgZ5Ig3anjqPIiQ"},
    {"header enc \"A128GCM\"",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciIsICJlbmMiOiAiQTEyOEdDTSJ9.eyJzdWI"
     "iOiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.saQeKi"
     "03vKIVmg2fxb7tIrXuUtpqtMCtPqif5CPQfbgYYR5LmkLBRYHefDTB93ccwV-B0bDZDHrf_kc2-1nDRbcMXD4qZE"
     "IOFYIp0OcF_VrMC2ejUKQews4U_W8sZDRYYPX3VJF5zUKSOEPay602nZyFvEdqOYO0yr__Snx4FyVGPbBGscNayR"
     "N4333PjdIIHbBm9IUOgSqpC8yZH01GWcVJ5K_QQamuVizCv6V-JkJzFU3ibL222oCg0dUCF3I00v9IlmmScnwPFj"
     "W09uzM4nI5DvPC4ZsHVgry69iuaCcllt-_2U9d8at83vkH_Ux4RH8QY7OcBUTH7wXkYeEwhA"},
    {"header typ \"logout+jwt\"",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogImxvZ291dCtqd3QiLCAia2lkIjogInIifQ.eyJzdWIiOiAidTEiLCAiZ"
     "XhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.m4A4OSAdkBUeZCECb_Ea"
     "wh6Z5Zj4Wlg4UI5xIJajtVQ6bgBYzk70uXIxwvwUdyLDCflzlQs_Kzf5JBvpTK_4FZWdRw53HwrbcQl0ESwbuHdH"
     "FRCsdbIB2uoQ5hTEtwFdB1aFadB18IFBjWjz4IDNFJB_6_OJz8j3Bd8Ctg-8A6Ax6SLbjkSt_mnLTJSe7Zi62tZJ"
     "Nfbsxu6O3uF-NkjIMfsDfD3eHCToBHVZi9bmsBose1s-g7iffMzUIzsN33_l-LWIkdW9ZzmXjiX3M7grVA2WOfZ8"
     "pG0ZwWfrxnXxrzwVhQf_dSCJ1edR33CYrkIRzl45TfVAX7ChlthNYHM6qA"},
    {"header typ \"secevent+jwt\"",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogInNlY2V2ZW50K2p3dCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCA"
     "iZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.oZPoUKxRir2ugppeVj"
     "KmWB_i2pxx01CkSmdFw21YHK01JYRl6CC3YCrT7b72BgIQ7YlemLiJ9EMXBhg3awaENpi74qKQlKBxiOEgMkWNA5"
     "X6hiegK34zO1pdD0yE7r-Yg9qqJ5GOGIvY4SfDyqhh5CdiEBGG187oVl05xuj2MPRZZePBWXboGyPGOKDaIHaPxS"
     "NqhnMRLJgdQ5OosyKHZIecqohAVhjh_GhHSAB30nqX01pQDspPeKOm_dLK_Q_CwNhLMP9RYriTPGqT4iGGFl3dBh"
     "w9EFpAih5ubMukF86v-20-7apkXI39JsCBQOiV81-U-dme0Cfsi9ebrX4UVQ"},
    {"header typ \"\"",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIiIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA"
     "4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.DfgANuvDGPl05Y8A_AOCFCBBmMP4aK88wM"
     "IN3C2E-N2KwSS5UhYKldm9IpOAbQW5e8SZXUb0tRFx6tpKRiKMSTA6xP_ozTMhGO8z2tRbc-ftIDu-BFOWMXtRRt"
     "LGoOGPAWWuzWSCz74jYX2fuiB5GPLz1E2ClO70v3slmmrwnH8XDHLRXxDAhFtOqF9aty4ITg5LebG8ZFVeDFFBpw"
     "fyIuNdJYm57k3FhzBrgCu4afHf0mL1gNr7iOXtQMMVL8x_wp71JfNP8WeVgkn0Y0-77P4xf9Km70fuPg5J6vtztX"
     "3tD9cYNepYsXnjWqqgqk_ndVL3fuwkF2jQ06kdcDcetg"},
    {"header typ 1",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogMSwgImtpZCI6ICJyIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4"
     "NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.yF49pUMHbOu6vgE7wi3TQT4Kg0WwiHZ28pI"
     "2Bqu7ygpQppBhoCoyzPb738kwhIz2puxihv-MwjwjU68ol_B-soDk9nKXKZgHPaa3rW8v0i3P7DbcYM5vq4rLUSj"
     "q2TKiLgDF7NaRngIdU5KaxDY2tIpgaWapexbOQORP22ofzGYjWDNMUIKjQigxU2oQu0Jc-TOsntdfFkTBDveCARV"
     "TS95sXCqk9SfQVuU2ebpQLS488x90ZVhbCjPaxDiyOdiLe8UCZuuni8-BQlkd6-M8FfUduYVk4SHwBkrosaLGr9v"
     "ozQJ5j6mkBMNYC8NK1ReBWeo48ekFuui4bKRGRXAIHA"},
    {"header kid 1",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAxfQ.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3N"
     "DA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.zlrUpI_LCH7ZofF1bCLaxH_02EbRDGum"
     "WbCurtsV6Iy_roDXdQBEKbWOAKhEYZlU8Ns5v_2mOqTa_BXc8kWVWU1k2b59eZ382caAFUp5WMrgJCSlowTJMjZs"
     "5caPmaUVsUo9fdfiEbtZRSELPBhKjhuVTwUPnOFkxDAZsb3qnK1CvfAJHZRmldzT3uHSWUG3xsmBpBmPWaRImO8O"
     "sLF0Op49nKm2zvBWsOdCt-0tr8JaJRIAYKjU7JjRaUS6jhffNmo9CehgWaHu5RGj-ucXn7NttaNatFYAfPFh0HtF"
     "OLy38RPDEcuHCOD8L1NNFAO86YvgoxxD76Rj4jMxAnfRRA"},
    {"header kid [\"r\"]",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiBbInIiXX0.eyJzdWIiOiAidTEiLCAiZXhwIjog"
     "MTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.U4cDhJseUpli0uWWje-pkBwdeYM"
     "3c7QECN91_kJQMYACQ6K91qxdYgYZOWBNjD36MdKz1Wc9ihz74cWe_qc6gYLAGLmJw2lBo3YzmnPGnIX8Ih_9H1I"
     "KKMqJjX64IFbcG_TIxh47N_S_VXU7yUvfzahl62fLhuP2FG76o_VPdjurZrTop1B47DSA0kKRkHyEx3cypb_o0dm"
     "f_XaId3Wi-B7vmka9eBfFIj36FOiDSsqu5cksl6qUDhowIp_WpIW1GDjt0ol6XQGwjfUNQTsuTkZtryRwXOBnDPj"
     "h39VRbiECxoUHRLYIyYMlpMibpNPOP-d-BD0TapvPGY_XCA8L-A"},
    {"header kid \"\"",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3"
     "NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.e_Shk94L64YZan_-JunuGSUlOlnfJNm"
     "F7WkwEeJ1_i_mfiyOZtub6itAQAT9idifm4iN2oLJgbPiS8XaO_6BZpEP9x3I_-UHwf1q6uu1ir9zIljToDPy4uk"
     "Ym_A4WdJAkaKq5N7KGpX0OpXKxdzpr6cNefF7EHLwTIJqeeSKinGxIY15oXxt0UeQrYAdOGaaJJUOZt6WKC3RGEV"
     "ZJtveqBWJNGIqiqQNc157e_yKsP4hR8xuw-bdV1QQBAuEIchk5jfxXkCTdTwuzO1Zr_ukPrfWH34wAEmFIqLvpiu"
     "pAZle2_qbQHdK58iuDuZiXRwVr1aRwpxWu3U9Gm939v1A7w"},
    {"header kid \"R\"",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiUiJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.ZZygwWMc7b90Noj1gGmGQPOFyYlgLJ"
     "32MwMneABGAGLCKVXdJ0YuqymOKAxHJY7NgkEpNwe59yO5qjJOg2oVgkk8g9Wmlb1Y31nLGSdFqU_96_o58uS7YM"
     "ixbeRLuSzbfsI-7C4HDqUUg98kxjDZQUQlFZXfF4w7n7SYHWVFrN7gmFadlpRzyAf1A8uNgU-bS7LeE4btwVlMhc"
     "REaTM9F249PqLWvxfnsk8SJDcDGGiCUYlI_GrfUKH9rXlMS5Hd0f3_0HcF9LBDDmVbGRDG7Uxj2u-3x8b2IbDiO3"
     "yRJJomslI636LaUf4lAng5MBp-I_gF2PYu0w7vGy5b5hZg4A"},
    {"header kid \"r\\u0000\"",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiclx1MDAwMCJ9.eyJzdWIiOiAidTEiLCAiZXh"
     "wIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.Mk7fS7xlB9BVU_P0WZDrQC"
     "X6-CuvyKNb6q-NR9SNLQTB1KjdQqC8t2f0ZfiDU8Tzdp0M_6GFOy1S9cnkQVEAEz93odlpg_2HoQGBh_2-GWOl0y"
     "EiEKkJTkaqAgIkOvMVGf18h90Ll9vIsDGDdlQNKXM9VW1AnMGNPGH8wl_ObmpK9y-WNS5855lg9e-m3GyF-TrN5Q"
     "RBxqX4AZDeuuovHXA6ALmO5FBefrheCwCXMMsPibz0iJQxWQVWlWWxyZriba7qWynhbVGwBQuG5UdCbDmL5oSKVw"
     "uD1sx1lUUsDTxUoQrksIzOVt-HBvmABpmepLKi3vPkcVuuMwxoXEkadg"},
    {"header kid \"../../dev/null\"",
     "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiLi4vLi4vZGV2L251bGwifQ.eyJzdWIiOiAid"
     "TEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.KnAlwvnkTZmj"
     "36gih09yjLIHPgiiUkdZsqIHkdh2kyvqYmXgiIlWLpB__fsQkv3rCPoxii4Q1Y-WIUsxvKmvDpCvQbYbjNGNkJ5W"
     "BSn-X-qFos00QKZ0zUZi60z_7Lnzxm5hq8_3Y8BL8a8x0uxSD_YC9CGidOlZadk_Rzi2t-_tHLTJBXS6AKD9w_nT"
     "TWcqOXa2ESBYwD3TMq9xkQFOu2wq5n1yIL_wT0ly3tmAbj9A1q2FolG4mAqBeaym7_UIMf2TPYj3kQI4OuAg9Fmq"
     "1u6ZgnkPxKFm0NlcoeBbcRZ8nCnQPiq4q_7CvNmP0QPALDYtEDYkIGdNi0AV9L7UAA"},
    {"header alg [\"RS256\"]",
     "eyJhbGciOiBbIlJTMjU2Il0sICJ0eXAiOiAiSldUIiwgImtpZCI6ICJyIn0.eyJzdWIiOiAidTEiLCAiZXhwIjog"
     "MTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.njQoUhwZH8JpNSlxe4nd4jwtjFq"
     "z8Uq2UXBnOJdO8DTDix1jzCoW5sbZOJkLKSPkkpp7lTSMp0VRNLd_IuxSR9ucafHfq1_plDQ-yDn6L9luyuV58zW"
     "QhrfSY1VCHOBPevcMBWJ2eY77H6Y8yMFn0rPZBn-TNoC9CKmODXWmveaL28kUoLmN1bBiNHHWRb2-9O9K8KknprW"
     "W1I34_78ajzypxz_Tn8HANuMnceLtZr0Pe3xUHRde1pSFK4LABq8h8H6hXfTVv5fQkiQM2CPDzLjrgtVXK7J8t8B"
     "NOz5EKepjU9QK5IM3_Kbfo9qQfZRHPKJaJMAbTxvDdN_lfueOfQ"},
    {"header alg 1",
     "eyJhbGciOiAxLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4NzI"
     "wMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.v2DmpAqliLuPtyJj6U5Xtd3SlQAOSTmRWY4dUI"
     "R9zQCtLEpiDic0RFv4mSYvr2ujwXvoXHCx5868DcusyNtP5xVLYuXKEbe2xm3tS-okJeHJZwtGr0CvxA5C4guXiT"
     "VPCK1yHRbIyYmMLd908dkU0rsIEtLWfGB8cSEgdie-gmLkDMD358ZViRXm9vgahW7mfeVUbvRetso_koE7sUox5C"
     "2-n7YpZ5ocTrDbKgZevBtGdZZPFmopjwjjZhB_t8Zo-okwr7eW7Sa-QhxRlWvywXmM7KBb8QA0xcSkkc19Mwztgg"
     "ZstEOPrgFYcugLdqhb6Lszn0BIJCVP2MzZQ_jeYw"},
    {"header alg \"rs256\"",
     "eyJhbGciOiAicnMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc"
     "3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.KXHOLA6cawxNUgY_r9MO03QCUT9N_S"
     "Y_SptFbB6GRp451s4o8aCQdnWpoGf1hizR4jkztitkAiwVy75-NCsMI2iRQjNQYPdO1MXN92x0Uxlq6BpKRy_hz9"
     "bSft_fXyZL77-oNPRVi8Ndo7vpOA34MbxbKLvcHy3qcI7SheuIMeLWML4P8Y5AgkBRNzmQVPzzHpXa-GKBkO8b5c"
     "mdnHEnFocpWTUMymyMaEjYwhk1_hoheU7oak2AxN3pNbHbY5WYO2VP63UmKwumnBIC6bhuMcXDs90P-10YTwuB4d"
     "ctLeaOwmV6fWpvVKrRDHhdR_O2V-b-EG4V8t00x6SGJbP8ZQ"},
    {"header alg \"RS256\\u0000\"",
     "eyJhbGciOiAiUlMyNTZcdTAwMDAiLCAidHlwIjogIkpXVCIsICJraWQiOiAiciJ9.eyJzdWIiOiAidTEiLCAiZXh"
     "wIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.Dnwppcgh_OQbasdjF3hPyh"
     "wVcj6m2YaavznobW0RIye-qDQsrgnNRl_9P425JFERSDU3IJvwOuYjsDiAAskIHIngWkn5vOMUN2Hboc4szCEQre"
     "7QpFPkFejtOQFaJz0r2csA_395MSQA7V0jk9kI4bvWKtfdL1Si96Jd18dLC1Ri2lwQFnijpOpqtFHVEp3nWfYZlf"
     "CBG5uQNFvJWSPm9FVlPQhuBAUHOpVbFc7I6ayCaMsifYHWw6tunc2cVWFtVJnoD2dl-gADA8y6GXDuXBCYPwGT9L"
     "5VlyOR5a5Chg9znm7co8KKf0_YFrAno0JiUMkTDnbWpoJH2PusVKTiqw"},
    {"header alg \"RS256 \"",
     "eyJhbGciOiAiUlMyNTYgIiwgInR5cCI6ICJKV1QiLCAia2lkIjogInIifQ.eyJzdWIiOiAidTEiLCAiZXhwIjogM"
     "Tc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.iOG8pOC4scJ8-L-MpWTioy4xxYZo"
     "mZ2hSMcm49vesZeUAzMQNmgztau5KkWjUHkPaCUV0Yq4tU8Q95ezs75HRd-6hWakjCxcVYaHxpjzhBSbfwe0se7G"
     "i-nfVawPcSqYtezyhfwVxMF_VE7gvaNwaAJtz2K2hK4fYOk6fF1ypocLRDTEcUUzhz-Z6p3PKRtxcNZCXo2P9zyt"
     "ZljF6m6n6sAhoZEvSUaupZE9WZoQZ2nfBanjhF7WDQB21LeDrBh3QQ8u6I3pg1M163m6xaejO2e-dvnK9_sE4mo5"
     "9plI6L811Ih8C5PnMX9OfXINR7XqTwSemus7bA-In_mBMoMD1Q"},
    {"no kid",
     "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCwiaXNzIjoiaXN"
     "zdWVyIiwiYXVkIjoiYmVsZnJ5In0.k1imvj-16bLXQoFdekd6iKpNtR8Iga1FSwY4MiAeSpQbyp_J85iGyTGUBZh"
     "3eeOYxdFTQrFGDrPisU-HLNphTBywArE43F95UGMVoN1shph8LP4wAq1JFNJUGJJnat6O0cnGauwmvZh3kGn5C7A"
     "LVm0487UJ3ZhFiOl0EHPYDWZxbKLm0ou54wmY7wBiNkQqiBgAvyGUpQDIJx6rxWTfD5sEob9sXO38I10PWsjpiHT"
     "qU_HQ0ZGqCIdS7L-hTwWFp8kWMs1mrnVGn8x7EgR75FuIKnFhJ-cXoWaXpR2VQ5vIosJBI1zbSzUlnRv1556EIIM"
     "-_APya2oQQOMgcXrouA"},
};

static const struct {
    const char *name, *token;
} public_expired[] = {
    {"RS256 expired",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4MzU2O"
     "SwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.Ti_0kymD3jgyCqEu0m8ZyKXoWmfxK2ee7HvauHKCFkJPe"
     "6ivKFkItj9rCqTUqHYuclwJ-hCV4i2pEulBQl166YNIuUI4oWGbISyfakaiT_j03WPYZSeXxuYJRmXfVk3IRogd-"
     "sgUEkgAeZ5oTzVf0jq72JlZvO2gXZ3dy4MikFS6cYYAZ70YD0zzlZnEa9-7W4-VkRPbOxe7Oy8SKt2_w_cUO2xvW"
     "PKzBchwnOEMVoc7-IUFTxmzy80rVlRQkeBM8j0DzhbOc-CLj8IjpjP1Aq5w-Q0E-xKlFFzgJR-RVfFgTiSiGQoUS"
     "V6EVyXc76v64h7VugGs8SYxO0jtLV6OqA"},
    {"ES256 expired",
     "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4MzU2O"
     "SwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.s1rOwhYLyftM6WONCgy6dUu3mFH_XiGccE-wZPt7KFMhh"
     "0K6Ie_8Rb_T8ZxbiaqdbMBo2Cv2UoTonJHXj-9SFA"},
    {"EdDSA expired",
     "eyJhbGciOiJFZERTQSIsImtpZCI6ImQiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4MzU2O"
     "SwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.kI7fU62x6ygZBJB6GRKFRYHVj5uR5AUxlDaPGRfvonPCg"
     "mkaTFRqRDB5fjaunOBmNGay0DQ636YISSsRw14KDQ"},
};

static const struct {
    const char *alg, *name, *why, *file;
} public_files[] = {
    {"RS256", "private key", "pkey -in FILE -pubout",
     "-----BEGIN PRIVATE KEY-----\nMIIG/gIBADANBgkqhkiG9w0BAQEFAASCBugwggbkAgEAAoIBgQCJ+y7Oo9jA"
     "8ezJ\ngkpJFUkYu0rtt6km/emQREZLMQhT2CbmdBpnxMssWg2GJ36BawFBRI37GPt4+9cb\n/3qxBedc+EOIMKA1+/"
     "Ke+rKIjscelyzpxs4A5MliMzUNMzVRYS1ctXdnzvk5f/Xm\ntfMcb8nDGR1HeQM0T6tttmJ3aaGV7YlFRZiBAegrT"
     "eDyjncpIAD50x7eB2fodVwx\ntEPjk5ZOvjXJv8MmDDbWx4ZHNlMF/LJQSMOnslcVBhr5cW+Yzzt6Lx5nkJyEqjkE"
     "\nmZSTJm7aNwt+wSEtt/M2t7El8SLSnm8uXm0Qy8BQwCtNaYn5nMLHn62Rss5kb43V\ncx6nW77MYJy3pmFiQO4tkL"
     "hG74H/RvfQcla2ytvXbsaAL78dVjtLFcIdM6eXU5CJ\nrUT025CjE9j5ABl983XUymjujR1cUjemQorN6dkszT9U9"
     "2dylBhq5QjZYX9MJ7Qy\nLcU5MFhRgnJ+gtB4OyEWGpXocz/O7Gf2dXRvZS/LtziwhqXyt/ECAwEAAQKCAYAH\np9X"
     "MEenPY0DhOZMV8NoVVuNwcvCt/NesGSiqCHh6/+7BGbMjG6du8JhoX4m4pCNt\nv9AtnNBLkTQJPfScjKx+g1kKXf"
     "HOqvnmPZhBJMRaH3bGygCxKqB8jAUrFEK2nyDb\nYGdljWWVLdMKu+DHLLHl6u9doUKG8Q5ss/pMwDHuoc88ZmEQs"
     "9aSDAQxiwtkHw4k\nzlSbqq8mhffxe0wqvNwhpnKxLNxG0LXMdwWtju9ecTvCwfXGmLnVjRkbKtK/eIxy\nNmE7rH7"
     "OqJuiSJSa6BZaata1ueDHrHJUrUPOqkf9OvDYLioy3NNVNScCwxRKIkpd\nGW+8s0hhGb0eQXZRI7AaMzgl1B889D"
     "AWZWqecwz7QzS9sDaN7+KL7aSrNDLhcfeu\nJ7+XYgip2n2rAjFz8E9jhkg3rAGj9M3fbMbXJJkObuEyaBtG7ewPX"
     "RYBYR+LIz6n\nCxUtxlehoXBBWkAy3xa9d/+/CXUUBnbB0z59Z+pKfyb1swA6jKGDRQW8af6MI6EC\ngcEAvuMC2Wn"
     "43D2XYTMBDaOnZEHssDwhoUCgAT9AqN0ItYxgsneSarnstVMWel0O\npt4cV7NV5BHaXTzP+k3ZZCkbogZC3Y/vzx"
     "8ByIw9CGRHxMKRVQZ5bl1hqXegvdRB\n+iEsf+SLMLzL1IYPKoHt2PDdLp/4tPRK0aiaay82EFTbeBCpxFFFvAbvu"
     "9tUc+CD\nMGQ8ZztXcD94xxcUUv7/U4ONqTud4/pRRcCoIp46EgP3YQfxt7IOVgCHi8nHdbCV\nGyfhAoHBALkMPyz"
     "15kMLhSVPiSjxdz+7vcypLSYcKT6AdAyDzKJAl6XQKpOfSvpq\nH0osfVmTt6m5rB80pApbqVIVA/TIANBzl69KMJ"
     "rKKaPARczKch661uo9Uuc7MDmh\nViVamTJERPBBf/5BHGhze/olUbAAKygfkYpZpIfIiOj1u2UL8Aci/E/q6Wkwr"
     "7d4\nWm1WUByEuBe6l3/B38zAsIBw+HtyYBbDLJZ4fVUs7xyXrNJhRsEsw84Tm0kSEdS+\noMdSvD9SEQKBwQCqIBb"
     "FAG6ck4QcS+HPbyDb+Oli9GSgm8E++0m8diqx62evB2SG\nHCh8Po4VBmTtkZ0/CIUvXD36xR0zHzj1zLFlCSGE6C"
     "i5tw/W1i37EazpDuOKHNgS\n5cUJzaWEKe2XaQOJBH6NNGaRhd10bBI4PAtU55w4YlVgYF0n1A7iJU7oxikX37s/\n"
     "5gq5qbOuBtXFRkCTXM8EKn2RKt+hTMTwgJm7z3db3RecDCWNnOlybviGERd8OYQP\nYC9uBarwGC374uECgcBTzDX"
     "3uEtT5S2gXcoxHlfwJqamvZ3SekI7KZRj7nOGrlV+\nIyyEuUgM6m3M+ySwofI0C/7kCsSWZDfjEd0+xiuIOjBgku"
     "o7znzYyMNTIAJZ5CZa\n4PZf/C+0iVknhUWGu9+0JRU/IGEq89Ea0DeTyh/BBbq0ui+FxcwqIs1/zs4djTxR\nPIIC"
     "vqd0IC5jAQk6QOfU5wygMD2WzVOgdogv7vWQmUXhxiKLpdOKUS1T//U4mXr6\nIWraxjII82J/oPnaeuECgcEAm08"
     "Xf5loD5WzZfEZBun05gW//v6tgs6pKGgCoUUe\n6dRi2PpIox6VDadAaPw8KccEgoxurFf5RTJLr7uH+aTvHKR8cJ"
     "c1Jr05SEVBGP6W\nvcdzO+RENFSlKpOdMyybJ8ND6hxKA3pZx8ZJC4DYx8ew8dlJ5z3AcgD7YcPtYHip\neSQVRH8/"
     "8fa+JdNFPWwDTQr1clygEi5C8LBrVkBtWPOvEuLk6BMh6jNoADRGa0/v\nrS8u38zZXYwDxg8Y5YeNS/H9\n-----E"
     "ND PRIVATE KEY-----\n"},
    {"ES256", "private key", "private key",
     "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIBWhzfphZsW0Y8SBl6wVoBMWLPoTZd2aHAnuyAzgKcNQoAoGC"
     "CqGSM49\nAwEHoUQDQgAED5JDWdWXgftmvBIA7LTA+yz6tZIU7EQhRmLWxNlZrEL8CalTnR9J\nrqHihZ1xdv9y8Y2"
     "ziir4vUYZI4+GnW4mOw==\n-----END EC PRIVATE KEY-----\n"},
    {"EdDSA", "private key", "private key",
     "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIPxrzjUcjTZQQ3XTWHO58nvXOpbucUcZ2ALbHHuX"
     "jQgJ\n-----END PRIVATE KEY-----\n"},
    {"EdDSA", "encrypted private key", "private key",
     "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGjMF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBB4B6"
     "sZbYhDgcLbj7Uh\nkOvmAgIIADAMBggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBKgQQ1vGHJ+ubJPBPjL8g\niPvBzgRA"
     "m/Z4NMudd5vh0mcA6yC/futmPXLd2onYUQSiih71oFajN9gzSGybJWFJ\ns5b2Rks34KGzYLSsSJTtAWyoLrE8jw="
     "=\n-----END ENCRYPTED PRIVATE KEY-----\n"},
    {"RS256", "1024 bits", "2048",
     "-----BEGIN PUBLIC KEY-----\nMIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDf481bL3jnqB1y5MzeR5YJD"
     "Ccg\nUPJHsrimlsDYcDiqU5IXgkQrGp1baYIhYqiBenrzUQkSBvVWgC3rnJ8cAjoqK5y1\nTRmPTe+DlM5JWufAwEy"
     "ndqUZn/PEQi5dhAz83Dx5zl0cTZN9vSGek6bmfEZD7+87\nMRscXZUCJKhTsg1NDQIDAQAB\n-----END PUBLIC K"
     "EY-----\n"},
    {"RS256", "2047 bits", "2048",
     "-----BEGIN PUBLIC KEY-----\nMIIBITANBgkqhkiG9w0BAQEFAAOCAQ4AMIIBCQKCAQBqH7R8tkMZbkyMc3SUY"
     "+mi\nrkOOnd0IIaUBeCeMVSZ9Ny427R3JbVF+JS0+Gsqi1l7sOekixfTv0RY36UaXLOhT\n4FtdjY3GPW/yJgm41Xn"
     "bnmw6RsD8DCPoSpKyWFpezIMT1h1mDz0uQnQ+75gcQduI\nnD5O3L+a3/38yEsCAEStbM4ybabYjXFlgB31QcLaf2"
     "DrkfQsl1OqY5EgMHfLL3nz\npgX/H9SVs02ZiYtGkknMe1Cu6J6P8vbl7HgLtNe3480gTgr2urqGV8E9NYXQr2XS\n"
     "5uY6z9xYooA2yFMZirurk8mioK8QiS90xcW6bV7NmzsblfCKvLuE1AYyonSju4Yr\nAgMBAAE=\n-----END PUBLI"
     "C KEY-----\n"},
    {"RS256", "PKCS#1", "PKCS#1",
     "-----BEGIN RSA PUBLIC KEY-----\nMIIBCgKCAQEA0aQ1AKXjEQx9ORuoYNBYBMnXgOo1OjkiSRolD2GdRDGs+"
     "y5lWuIk\njrYI37JVCwWoON6DDvP1SlsHlOsi29Wyo7z6/hSlb+CKDfCloF2vTJdtM3dKpiBe\n5iGBm97oog2n856"
     "zAaJ8HdWm6FyThm04ioIODmQKhmQS2JFMXZ3VxsJ4mJtvk3s3\nd7+yWySLGSbkYu9rQiKA1otTMh+grZLvZsgZai"
     "mBzW801O6V1/4kC84JK5TsIu9Y\nBOpfUeXIzNht0+uAqFhZ8zhpf/oCHaV30PaSdLYJ+5flgXtV/RxlXefRd2Gzx"
     "m4o\n3PQVHZLXb8zmIG2y0SBn80yKfUt0f7l2iwIDAQAB\n-----END RSA PUBLIC KEY-----\n"},
    {"RS256", "exponent 1", "not sound",
     "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAt2xh6hLdHxfv/g2vF"
     "sjWqxIjbgW3M2+M\ndyZvZsNAnANM196zmgtI0JE9MR8HE85C8vrceDbmoZ5srO9L0oXsJh3P9JOXFM6AeFJ+Grwt"
     "KaoG\nvVtSBLmHUaQA+VHndL4lKSsh4fNhxtCbQkBbTBuZKeXg6w/HWG7Lp54/ctrYVYEhipXmxE/61O9w\nnukil4"
     "+6km5m1x5XDktmrv01l7VgP2Duz6KuKgyDHtPUOVos5ppNJmbEnpJFzJk3cxffLYKy5sAJ\nNryfMFo1/nZi1Y249"
     "kCskv8Abf/ZqW/K4GaX10GKPakKlTEqXYjOv0y5nO4W+iWaOmmaelQriTwC\n8KXWLQIDAAAB\n-----END PUBLIC"
     " KEY-----\n"},
    {"RS256", "damaged", "damaged",
     "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA0aQ1AKXjEQx9ORuoY"
     "NBY\nBMnXgOo1OjkiSRolD2GdRDGs+y5lWuIkjrYI37JVCwWoON6DDvP1SlsHlOsi29Wy\n40mhTyF6mWdH8JaAz65"
     "8n2goo79mBGi5eBipKd3MtdJTv2FolCfDKC+blSh/6z7o\nZsgZaimBzW801O6V1/4kC84JK5TsIu9YBOpfUeXIzN"
     "ht0+uAqFhZ8zhpf/oCHaV3\n0PaSdLYJ+5flgXtV/RxlXefRd2Gzxm4o3PQVHZLXb8zmIG2y0SBn80yKfUt0f7l2\n"
     "iwIDAQAB\n-----END PUBLIC KEY-----\n"},
    {"RS256", "several", "several",
     "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA0aQ1AKXjEQx9ORuoY"
     "NBY\nBMnXgOo1OjkiSRolD2GdRDGs+y5lWuIkjrYI37JVCwWoON6DDvP1SlsHlOsi29Wy\no7z6/hSlb+CKDfCloF2"
     "vTJdtM3dKpiBe5iGBm97oog2n856zAaJ8HdWm6FyThm04\nioIODmQKhmQS2JFMXZ3VxsJ4mJtvk3s3d7+yWySLGS"
     "bkYu9rQiKA1otTMh+grZLv\nZsgZaimBzW801O6V1/4kC84JK5TsIu9YBOpfUeXIzNht0+uAqFhZ8zhpf/oCHaV3\n"
     "0PaSdLYJ+5flgXtV/RxlXefRd2Gzxm4o3PQVHZLXb8zmIG2y0SBn80yKfUt0f7l2\niwIDAQAB\n-----END PUBLI"
     "C KEY-----\n-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA05du7T"
     "yuF4FM+hUXY0Or\nSk5YSYZHu9UFkq86RFe7ShLaBJaVrHk31gIE9sGoM9cS1tCpy8+npFs7YAzefvBK\ng5mpzRtx"
     "vSDYZLFj2y+j7rCFbiRUwaaoTaDTzLh+7aSUBO1mts6mupM4CnxoqyWm\n2yqwcbPc523azzbyYoKTDegfMNrWtUF"
     "0mYZxyDS/GEqDgCHX1hPqo7ymZ1ZeKHIK\nVs8JmVo3+dU1IfDPp/+/Bc3S8PDzWlx7EM6/Z4mUBQkYcTpeArRzQU"
     "dlOpS+t9dB\nupfrRwYJRXxEbBo/WsnBeyKai4k8tS+HZr5ZLzq+DQgj9nilISHIyxWZ6c9q6Dzg\ngwIDAQAB\n---"
     "--END PUBLIC KEY-----\n"},
    {"RS256", "P-256", "RSA",
     "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJBuRd/wQa0BlrUgvpZlp2SmVG"
     "Ndu\n0p5Ixu/eiQtuV5A7Y5n0x2+yYfaLMv4vFJoXaMOW/10PIgwFVeZ8+8Wxrw==\n-----END PUBLIC KEY----"
     "-\n"},
    {"RS256", "Ed25519", "RSA",
     "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEALFfGe6L9oSVEntJpegvrEcXFEg9MEb7zyVICUgfDFx4=\n"
     "-----END PUBLIC KEY-----\n"},
    {"ES256", "RSA", "P-256",
     "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA0aQ1AKXjEQx9ORuoY"
     "NBY\nBMnXgOo1OjkiSRolD2GdRDGs+y5lWuIkjrYI37JVCwWoON6DDvP1SlsHlOsi29Wy\no7z6/hSlb+CKDfCloF2"
     "vTJdtM3dKpiBe5iGBm97oog2n856zAaJ8HdWm6FyThm04\nioIODmQKhmQS2JFMXZ3VxsJ4mJtvk3s3d7+yWySLGS"
     "bkYu9rQiKA1otTMh+grZLv\nZsgZaimBzW801O6V1/4kC84JK5TsIu9YBOpfUeXIzNht0+uAqFhZ8zhpf/oCHaV3\n"
     "0PaSdLYJ+5flgXtV/RxlXefRd2Gzxm4o3PQVHZLXb8zmIG2y0SBn80yKfUt0f7l2\niwIDAQAB\n-----END PUBLI"
     "C KEY-----\n"},
    {"ES256", "P-384", "P-256",
     "-----BEGIN PUBLIC KEY-----\nMHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEYlStR6RWnTUcWlJEa5uEW1EoLG+nV"
     "ptD\n9sxPcGnZRXkm3rshDKonhsFStqtQa1YeqKu15IbwVXBpPFL5wlo+I/RRRitBJ6Ea\nkn6vXuaOC6tEosnpp5e"
     "+HcJV7oOihlZp\n-----END PUBLIC KEY-----\n"},
    {"ES256", "secp256k1", "P-256",
     "-----BEGIN PUBLIC KEY-----\nMFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAEu5F0tzHAraj12SbKRmjykxzpPlfSJ"
     "p88\n4rE8swj3ckkskD6NEum88TMd3pfgxiDhitv6R9ZtVFZKIi8HnJGzsQ==\n-----END PUBLIC KEY-----\n"},
    {"ES256", "Ed25519", "P-256",
     "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEALFfGe6L9oSVEntJpegvrEcXFEg9MEb7zyVICUgfDFx4=\n"
     "-----END PUBLIC KEY-----\n"},
    {"EdDSA", "RSA", "Ed25519",
     "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA0aQ1AKXjEQx9ORuoY"
     "NBY\nBMnXgOo1OjkiSRolD2GdRDGs+y5lWuIkjrYI37JVCwWoON6DDvP1SlsHlOsi29Wy\no7z6/hSlb+CKDfCloF2"
     "vTJdtM3dKpiBe5iGBm97oog2n856zAaJ8HdWm6FyThm04\nioIODmQKhmQS2JFMXZ3VxsJ4mJtvk3s3d7+yWySLGS"
     "bkYu9rQiKA1otTMh+grZLv\nZsgZaimBzW801O6V1/4kC84JK5TsIu9YBOpfUeXIzNht0+uAqFhZ8zhpf/oCHaV3\n"
     "0PaSdLYJ+5flgXtV/RxlXefRd2Gzxm4o3PQVHZLXb8zmIG2y0SBn80yKfUt0f7l2\niwIDAQAB\n-----END PUBLI"
     "C KEY-----\n"},
    {"EdDSA", "P-256", "Ed25519",
     "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJBuRd/wQa0BlrUgvpZlp2SmVG"
     "Ndu\n0p5Ixu/eiQtuV5A7Y5n0x2+yYfaLMv4vFJoXaMOW/10PIgwFVeZ8+8Wxrw==\n-----END PUBLIC KEY----"
     "-\n"},
    {"EdDSA", "Ed448", "Ed25519",
     "-----BEGIN PUBLIC KEY-----\nMEMwBQYDK2VxAzoAe2+CGB8rfYFujISPoBLBV9wpoNXloXGszZnxnqgUh9Hwe"
     "Po6\ntAevZoPJXNnVp8zAiF3hl013NoWA\n-----END PUBLIC KEY-----\n"},
    {"RS256", "DSA", "RSA",
     "-----BEGIN PUBLIC KEY-----\nMIIDRjCCAjkGByqGSM44BAEwggIsAoIBAQDQDFp6eMHzfuYlR8E0cp/pa1oDp"
     "AHg\nxbLPVITn2V3ON9obsgvaxOAK8k+yN1LYNF0RdhPAdwDtNr3OFsC65O7oBuCr5uL/\no3LUr65sBmkJ+q1XQkk"
     "a5tNYr2e8uppg6+5h86JSJUpCCV41ubkJs4MOKHNowX8+\nPM4WIl+IEiQu2dxLMc+HTmPoHflHNk3yaxgfipRggY"
     "DuYrz8Hr35lwf5wZuoVRo8\nDtbe6VDpAs+13MqxTHPcP0a1rMgJ1/68ciCBc1IV3MFGjXfSDD8A4Gs6YcS0+loq\n"
     "R4bkwVt0tLro0PkDbkBPHpsA8XfaMwgFaQ8wP7tOYNwKQLYdUkIYgjR/AiEAmUOm\nHJ5inwW+a/c3v2XMYanynFE"
     "nLvI7p/3yTRkzAdcCggEARezOdOj6ZZFETTQHMIPQ\nABShLsKSMNmwytgCRxlED9k5B+P79TuN6z/U6NW5H3cuOk"
     "1QiHhHTjV0qj9jOa+y\nBGpZnCqxBm4SOlJMBgOV0lk+M/x3VIxNDICW8YCBgBgRhpFrKbeVG9Fq8hmpHkgD\noAeG"
     "Utk8gs595ziNxde5zKRxOepUkOp4nFXCzXMYDD1YTc6gkJsDhbSTobwvo+mu\ndcSBzOU+EV5vv3hiKlaHsUISGjB"
     "jE5lRCzy46dCrSPHYptBK6SfP8Myh+9KbsiHc\nD9PIilYYr/YGZAKVFLLWF7oXgcWYb+VQ+uCkITtFN6s5K9HRmY"
     "FvyvMChILcDlBK\ntQOCAQUAAoIBAB43K/0C587jnu+k/Q4WCFj3IRexPalyv4a4r9Yl2nxp+VYvV8mY\nUvrPZ8xy"
     "LQgzV/WYan0qMS+8nximfyymBspamSuIReFgoNb0QRf2hdZpMk5jTB2W\nSw7LgzM2WAqs0G92+7sE1gDj6XEyyDz"
     "KoTNLegFljocV1Jt4m1qqr6b0w5dz419Z\naEaH4kh7/h97NZdhd+ll6QygdMbQn5UbG42CaFWWsHSX/nBIxbT8Ov"
     "fjDvEMWTtj\nAJiKpNtEsQnjR0tNbb7BbfWYA0+w0n2RsvjbqhTgQ96q49t/LSr5QiiPLBKZUBIk\nw1BLkVscxjCx"
     "5MhWYTqkRHQP/ivbY3fylJQ=\n-----END PUBLIC KEY-----\n"},
    {"HS256", "RSA", "hex",
     "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA0aQ1AKXjEQx9ORuoY"
     "NBY\nBMnXgOo1OjkiSRolD2GdRDGs+y5lWuIkjrYI37JVCwWoON6DDvP1SlsHlOsi29Wy\no7z6/hSlb+CKDfCloF2"
     "vTJdtM3dKpiBe5iGBm97oog2n856zAaJ8HdWm6FyThm04\nioIODmQKhmQS2JFMXZ3VxsJ4mJtvk3s3d7+yWySLGS"
     "bkYu9rQiKA1otTMh+grZLv\nZsgZaimBzW801O6V1/4kC84JK5TsIu9YBOpfUeXIzNht0+uAqFhZ8zhpf/oCHaV3\n"
     "0PaSdLYJ+5flgXtV/RxlXefRd2Gzxm4o3PQVHZLXb8zmIG2y0SBn80yKfUt0f7l2\niwIDAQAB\n-----END PUBLI"
     "C KEY-----\n"},
    {"RS256", "hex", "BEGIN PUBLIC KEY",
     "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"},
    {"RS256", "empty", "BEGIN PUBLIC KEY",
     ""},
    {"RS256", "certificate", "certificate",
     "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
    {"RS256", "encrypted by an old header", "damaged",
     "-----BEGIN PUBLIC KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0000000000000000"
     "0000000000000000\n\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA0aQ1AKXjEQx9ORuoYNBY\nBMnXg"
     "Oo1OjkiSRolD2GdRDGs+y5lWuIkjrYI37JVCwWoON6DDvP1SlsHlOsi29Wy\no7z6/hSlb+CKDfCloF2vTJdtM3dK"
     "piBe5iGBm97oog2n856zAaJ8HdWm6FyThm04\nioIODmQKhmQS2JFMXZ3VxsJ4mJtvk3s3d7+yWySLGSbkYu9rQiK"
     "A1otTMh+grZLv\nZsgZaimBzW801O6V1/4kC84JK5TsIu9YBOpfUeXIzNht0+uAqFhZ8zhpf/oCHaV3\n0PaSdLYJ+"
     "5flgXtV/RxlXefRd2Gzxm4o3PQVHZLXb8zmIG2y0SBn80yKfUt0f7l2\niwIDAQAB\n-----END PUBLIC KEY----"
     "-\n"},
};

/* clang-format on */
#endif
