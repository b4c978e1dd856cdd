/* Made with PyJWT 2.15.1 (and, what that refuses to make, with hmac) at 2026-03-21T09:00:00Z: keys a = bytes
 * 0-31, b = bytes 100-163, issuer "issuer", audience "belfry". code NULL: accepted. */
#ifndef BELFRY_TESTS_JWT_VECTORS_H
#define BELFRY_TESTS_JWT_VECTORS_H

static const struct {
    const char *name, *code, *token;
} vectors[] = {
    {"plain", NULL,
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.jUN2mNyM5hR6QGzRHZVUpUEqnet-R8xeQ0omQr1r7fU"},
    {"key of 64 bytes", NULL,
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.4pBVo1UXeiucMTPExu9x-Wkxcd6InV2bi5SnfkxF7JY"},
    {"audience in a list", NULL,
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjpbIm90aGVyIiwiYmVsZnJ5Il19.fKc_5wPgLMQecLhoNyKXEKG0SXjkDnqgzrRt"
     "mOyP_OI"},
    {"expired 29 s ago", NULL,
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4MzU3MSw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.CrFS-nBnDNTMayN8Pv2pSNtOp18VDTmG5COqZuspE18"},
    {"expired 30 s ago", "token_expired",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4MzU3MCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0._JBlm2PbFbB8YgpdeO5J9CtHAMnotg3s3ab5AhTGKG8"},
    {"expired long ago", "token_expired",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MSwiaXNzIjoiaXN"
     "zdWVyIiwiYXVkIjoiYmVsZnJ5In0.3VBq6nlcgyNOTqy5X9Yz0nlUQGLN0MqEmqz7E6srimQ"},
    {"exp with a fraction", NULL,
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4MzYwMC4"
     "1LCJpc3MiOiJpc3N1ZXIiLCJhdWQiOiJiZWxmcnkifQ.pDyNM2Rv0FYJE5ikx5AsYPaBjXxem2tCgb7s-mj8bp0"},
    {"valid in 30 s", NULL,
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5IiwibmJmIjoxNzc0MDgzNjMwfQ.cf3sew-t6IIbv_0-CgWg1qT_QW"
     "it5V835SIwPaCcJjk"},
    {"valid in 31 s", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5IiwibmJmIjoxNzc0MDgzNjMxfQ.m1bDVRGGO7httSodB1V9SS_hSW"
     "-TyPggYfVTOqUIPfU"},
    {"other claims", NULL,
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5IiwiaWF0IjoxNzc0MDkzNTk5LCJqdGkiOiJ4Iiwicm9sZXMiOlsiY"
     "SIseyJiIjpbMV19XX0.liVfo2FWm6rLBSNuXEfejHQB7mPVnclHsWNXzN3Aqlg"},
    {"sub of 200 bytes", NULL,
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3N"
     "zc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc"
     "3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3N"
     "zc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3NzcyIsImV4cCI6MTc3NDA4NzIwMCwiaXNzI"
     "joiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.2emjjF7fF_Rw7G8NKCz08K5q7rE_ZiguhQr3JXi6KEA"},
    {"sub in UTF-8", NULL,
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ6b1x1MDBlYlx1ZDgzZFx1ZGQxNCI"
     "sImV4cCI6MTc3NDA4NzIwMCwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.ZChQEtfstygoGl3SwnYfzCMCc"
     "eegaaCpm-w30W6omBs"},
    {"no kid, two keys", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCwiaXNzIjoiaXNzd"
     "WVyIiwiYXVkIjoiYmVsZnJ5In0.3EyIU90wSjvbd-hcBh48E8apmNgRky9GdY6aWXTv5d4"},
    {"unknown kid", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6Inp6IiwidHlwIjoiSldUIn0.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMC"
     "wiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.Pn3buWh6XxLW56wC4OS-8BHSAKUVETi_RRY_gXkoikQ"},
    {"empty kid", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6IiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCwia"
     "XNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.y8YAS1p1W6rLVyxpoVj6jeC2zuN3h2ZPAvWvSu9wP1c"},
    {"kid of the other key", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.k8iPmiAst3GNJyRa2ykl3YMazJMGOSYEVUTUMVXozxQ"},
    {"signed with the other key", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.bFtz0H_jXYBR9YisIOoVPwUiWy_YsGlII7VWwWwetn4"},
    {"no exp", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImlzcyI6Imlzc3VlciIsImF"
     "1ZCI6ImJlbGZyeSJ9.Tyd97TtOfTPBmb83fme8KpYuL__dCNYN5X3bdqG8_M4"},
    {"exp as text", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogIjE3N"
     "zQwODcyMDAiLCAiaXNzIjogImlzc3VlciIsICJhdWQiOiAiYmVsZnJ5In0.O92I4aUUjBRrSL4u_u0x4VWwNJscGTG"
     "oszErFK-KPjg"},
    {"exp true", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogdHJ1Z"
     "SwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.Uc7ifH22w52KZ1xctiDsXP4pBe5PEAj25rUL6ckg9n"
     "o"},
    {"exp null", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogbnVsb"
     "CwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.foukaZs3XtWxGyQ3ZTWfnAR5vs6mfqaUIbW-M5TO8L"
     "E"},
    {"exp far away", NULL,
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiJ1MSIsImlzcyI6Imlzc3Vlc"
     "iIsImF1ZCI6ImJlbGZyeSIsImV4cCI6MWUzMDB9.yXIfo5p_t6FBLyhFVvME1gXor50jdLC3D7U5HxMbnI8"},
    {"exp far back", "token_expired",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiJ1MSIsImlzcyI6Imlzc3Vlc"
     "iIsImF1ZCI6ImJlbGZyeSIsImV4cCI6LTFlMzAwfQ.iJZSQvUXQ-tbVDdWX09fWOcMFinzadIb45h8wjRFVpc"},
    {"nbf as text", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3N"
     "DA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSIsICJuYmYiOiAiMCJ9.KwxEcnv_zOYOUEuUGj"
     "aPi_fWAQW17fk3uwoQ8VWdfg4"},
    {"another issuer", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyMiIsImF1ZCI6ImJlbGZyeSJ9.DEYVa2dRHQjM5EncSlCn63OI_J9Wz8b8yEru_-13qK4"},
    {"issuer in a list", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3N"
     "DA4NzIwMCwgImlzcyI6IFsiaXNzdWVyIl0sICJhdWQiOiAiYmVsZnJ5In0.WWDeIlrEiEvrsriI90u7_Yf12WMqGBa"
     "WevgPoGVMegU"},
    {"no issuer", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iYXVkIjoiYmVsZnJ5In0.sEIPXokHumgHhn-lIw4FyitGhzNrDeuDFCTDiY_7QZg"},
    {"another audience", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5MiJ9.iQM3DBb5OX2j_HeOdFn_fWJMu6YGq9Rd4LgXSR1Fpss"},
    {"audience list without ours", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjpbIngiLCJ5Il19.fK_oImZoGDqEtCcLa26kJj5PJseaFxECb4Zzbfq76t0"},
    {"audience list empty", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjpbXX0.I1CdmKAnjkwRYPnpNpVGSvlu_0FG9JNo0loUJfNCJcI"},
    {"no audience", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIn0.SLad5hgvw02BDiXUySm4E3WIBUDJz7MJA2b9HZ4aEcY"},
    {"no sub", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJleHAiOjE3NzQwODcyMDAsImlzcyI6Imlzc3V"
     "lciIsImF1ZCI6ImJlbGZyeSJ9.KJT6KZ9vrF9e7rlqmzTFzRTc4k9n-_USaBuDl0yHq9U"},
    {"sub a number", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAxNywgImV4cCI6IDE3NzQwO"
     "DcyMDAsICJpc3MiOiAiaXNzdWVyIiwgImF1ZCI6ICJiZWxmcnkifQ.zFxrZz13mu-5vsPLX3d-qJ3oCw6yQPlaipkJ"
     "dPH3uVM"},
    {"sub empty", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiIiLCJleHAiOjE3NzQwODcyMDAsIml"
     "zcyI6Imlzc3VlciIsImF1ZCI6ImJlbGZyeSJ9.fPbYVknR335MKbc2PXvM5gnU_QsnlXrJTfxVw6ettlA"},
    {"sub of 201 bytes", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3N"
     "zc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc"
     "3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3N"
     "zc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3MiLCJleHAiOjE3NzQwODcyMDAsImlzc"
     "yI6Imlzc3VlciIsImF1ZCI6ImJlbGZyeSJ9.144pxqZZP7lmwJTgVakbUjyeBcKWCUzr1vgVhKDuIfM"},
    {"sub with U+0000", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAidTFcdTAwMDAiLCAiZXhwI"
     "jogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.3K3VQi-UcEq4LREydD9xcnmSi3"
     "QpxY4m9tfi9mVwpu0"},
    {"sub twice", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiJ1MSIsInN1YiI6InUyIiwiZ"
     "XhwIjoxNzc0MDg3MjAwLCJpc3MiOiJpc3N1ZXIiLCJhdWQiOiJiZWxmcnkifQ.1fmE0dqP2xK9qCD3LUc0fmsLRXeO"
     "Cp_UumL-W7GUOVg"},
    {"sub twice, escaped", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiJ1MSIsInNcdTAwNzViIjoid"
     "TIiLCJleHAiOjE3NzQwODcyMDAsImlzcyI6Imlzc3VlciIsImF1ZCI6ImJlbGZyeSJ9.K0cE5ukBqdzjw__Ghx-LVz"
     "m2CtKd8r0INtiKxR2BJmg"},
    {"claims a list", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.W3sic3ViIjogInUxIiwgImV4cCI6IDE3N"
     "zQwODcyMDAsICJpc3MiOiAiaXNzdWVyIiwgImF1ZCI6ICJiZWxmcnkifV0.BLg_yeUp42YD24wokt6ubHwv4Ure7Kh"
     "JPEc-S4TZOiI"},
    {"claims not JSON", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.dTE.QpqMw8byJ2cZIh3vd86qVmaeAw_6Q"
     "QxZuAQLK4aAvMg"},
    {"claims empty", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9..OCcqoUvZ52dEy-w2XuKw_oH8M4119o3b"
     "Kx0zUx7CPmc"},
    {"header not JSON", "token_invalid",
     "SFMyNTY.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbG"
     "ZyeSJ9.95yZXfw19s9AepOqxDL1nR6kmQTmgEX_HgNMm6g3C1Q"},
    {"header a list", "token_invalid",
     "W3siYWxnIjogIkhTMjU2IiwgInR5cCI6ICJKV1QiLCAia2lkIjogImEifV0.eyJzdWIiOiAidTEiLCAiZXhwIjogMT"
     "c3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.Q9qZc6mTRKB8XTZWMhdbd5gI8p4RlmZ"
     "hQWUoEP9X2DE"},
    {"alg twice", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImFsZyI6Im5vbmUiLCJraWQiOiJhIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4Nz"
     "IwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.PE8MFz1G0mlr9BlLOs-P3IAuGPycWOFs7KWsdMy"
     "HnvI"},
    {"HS384 with our key", "token_invalid",
     "eyJhbGciOiJIUzM4NCIsImtpZCI6ImIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.RtGhVZI01ZRIl4QfJBOgUWn6HqZeDWa4Y80vuPUZjUzqZwEz-"
     "qutK6q0OBwMSI7u"},
    {"HS512 with our key", "token_invalid",
     "eyJhbGciOiJIUzUxMiIsImtpZCI6ImIiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.IvaYcTkGYTkxouuYlvnwTSUJZ_zqpwM91zt-bTW6IFeDtkrSz"
     "HBWcNjUSCJzJJwnP15zts5PTS37SAqpyU9OhQ"},
    {"alg in lower case", "token_invalid",
     "eyJhbGciOiAiaHMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3N"
     "DA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.w4JIZZAkKB8ZE_kvvg5DVojy3rAmevsMV3"
     "5GxDq7xDE"},
    {"alg missing", "token_invalid",
     "eyJraWQiOiAiYSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkI"
     "jogImJlbGZyeSJ9.70gMLHrMkjYhO0WGZFqyWQtw17oJEW8cQZl1JL99T4U"},
    {"alg null", "token_invalid",
     "eyJhbGciOiBudWxsLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4N"
     "zIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.z9YWzqu-mkcsX_Op_8xrvtlom4nCfg6eHBw5W_"
     "ZNJaA"},
    {"alg none", "token_invalid",
     "eyJhbGciOiJub25lIiwia2lkIjoiYSIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCwia"
     "XNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0."},
    {"alg none, signed", "token_invalid",
     "eyJhbGciOiAibm9uZSIsICJ0eXAiOiAiSldUIiwgImtpZCI6ICJhIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3ND"
     "A4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.vgBePJFJXZbSQWDnDPSaJ_Ky1mqyHTMwyeb"
     "OMJURlwM"},
    {"alg nOnE, unsigned", "token_invalid",
     "eyJhbGciOiAibk9uRSIsICJ0eXAiOiAiSldUIiwgImtpZCI6ICJhIn0.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3ND"
     "A4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"HS256, unsigned", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3N"
     "DA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9."},
    {"RS256", "token_invalid",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.ptwFUP5NmnZqQG4iXKZG0QC_LQ8sk6M8a1ovaHXCqHeMVNAIZ"
     "0-ZuMCJSLVQ9pGfxrRnEDtvpwlrROMfS8zyZv3XTqzMb6N4iKcBZ2ExAoZLdssywnULb0OjhvLcqplzNIYlnpGeJ2K"
     "9Bi9ydmnsT3j5piKPYMs_X9t6kfP2KQvo2Y9WQVvBpcPvfatHCcseKWmmKV91MLdWfo_d64AiBW8PiPVDXVEeryBNz"
     "IiIjs8TPklS9xTixaN_9BhbTmJ7J3WKVb7cTx05yMLgNLABgqU236VMaGPxCrCRXA3zbXY1ZvTonEnXRPMHfl2vv_0"
     "ijaSiH7lGS4Cn7r6FS-4NeA"},
    {"HS256 with an RSA public key's PEM", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3N"
     "DA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.nj6WZtNQa-hV1dcDEalXTSlK0w4nreJqUI"
     "S_ybjdHdA"},
    {"HS256 with the hex of the key", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3N"
     "DA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.pmnCcLFTXDEoLMzdf8FM6_NVRB-f-KoquH"
     "7XQnTbSOw"},
    {"with crit", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSIsICJjcml0IjogWyJleHAiXX0.eyJzdWIiOi"
     "AidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.733FlQKKeEY"
     "IMHyurQw1CnGw8r_GfB7spHZtx9YHCSE"},
    {"with jku", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSIsICJqa3UiOiAiaHR0cHM6Ly9ldmlsLmV4YW"
     "1wbGUva2V5cyJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjo"
     "gImJlbGZyeSJ9.jmXGo1ydu0RQ1gpkmloDHMFrHIn3I0AcuE_kKG7nf9Y"},
    {"with x5u", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSIsICJ4NXUiOiAiaHR0cHM6Ly9ldmlsLmV4YW"
     "1wbGUvYyJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJ"
     "lbGZyeSJ9.HRC7CulLYc22EkrGVuxtPSDIQ4yv-Xpw8uGDTvm33b8"},
    {"with jwk", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSIsICJqd2siOiB7Imt0eSI6ICJvY3QiLCAiay"
     "I6ICJBQUFBIn19.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjo"
     "gImJlbGZyeSJ9.nP12vjFtyCLocAfzK07GAn6Of1ixUG1UrshAlJqi9d0"},
    {"with x5c", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSIsICJ4NWMiOiBbIkFBQUEiXX0.eyJzdWIiOi"
     "AidTEiLCAiZXhwIjogMTc3NDA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.MEfNgbHxcUR"
     "VT0DHmqChw9aZzjmLs_g2-IBJOFptl5Q"},
    {"with x5t and cty", NULL,
     "eyJhbGciOiJIUzI1NiIsImN0eSI6IngiLCJraWQiOiJhIiwidHlwIjoiSldUIiwieDV0IjoiYWJjIn0.eyJzdWIiOi"
     "J1MSIsImV4cCI6MTc3NDA4NzIwMCwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.iQuWvB_2mpYErE8msJxi"
     "Dt_HheeHf4gnmhgCGx0mchg"},
    {"padded signature", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.jUN2mNyM5hR6QGzRHZVUpUEqnet-R8xeQ0omQr1r7fU="},
    {"four parts", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.jUN2mNyM5hR6QGzRHZVUpUEqnet-R8xeQ0omQr1r7fU.x"},
    {"two parts", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0"},
    {"signature cut", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.jUN2mNyM5hR6QGzRHZVUpUEqnet-R8xeQ0omQr1r7"},
    {"signature not canonical", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCw"
     "iaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.jUN2mNyM5hR6QGzRHZVUpUEqnet-R8xeQ0omQr1r7fV"},
    {"payload of another", "token_invalid",
     "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiAidTIiLCAiZXhwIjogMTc3NDA4NzI"
     "wMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSJ9.jUN2mNyM5hR6QGzRHZVUpUEqnet-R8xeQ0omQr1r"
     "7fU"},
    {"dots only", "token_invalid", ".."},
    {"empty", "token_invalid", ""},
    {"4 KiB and more", "token_invalid",
     "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYSJ9.eyJzdWIiOiAidTEiLCAiZXhwIjogMTc3N"
     "DA4NzIwMCwgImlzcyI6ICJpc3N1ZXIiLCAiYXVkIjogImJlbGZyeSIsICJ4IjogInl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl"
     "5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e"
     "Xl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXkifQ.Dv5Bmg0hatLJaoQGTQIiwRN96xSE"
     "SHJW5v62QnW1-zc"},
};

#define VECTOR_WITHOUT_KID                                                                                   \
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."                                                                  \
    "eyJzdWIiOiJ1MSIsImV4cCI6MTc3NDA4NzIwMCwiaXNzIjoiaXNzdWVyIiwiYXVkIjoiYmVsZnJ5In0.3EyIU90wSjvbd-"         \
    "hcBh48E8apmNgRky9GdY6aWXTv5d4"

#endif
