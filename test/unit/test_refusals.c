/*
 * test_refusals.c
 *		A libcrypto that refuses: whatever needs a digest says so, nothing else
 *		is disturbed, and all is well when it no longer refuses.
 *
 * A program of its own, because what libcrypto gave once is kept.  The
 * functions here stand before those of libcrypto and of its provider, and hand
 * on to them unless they are told to refuse.
 */
#define _GNU_SOURCE				/* RTLD_NEXT */

#include "support.h"

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#if OPENSSL_VERSION_NUMBER >= 0x30000000L

#include <openssl/core_dispatch.h>
#include <openssl/provider.h>

/* What is refused: "provider", "query", or of a digest, "md5 final". */
static const char *refused = "";

/*
 * Whether this is refused.  As libcrypto does, leaves an error behind then.
 */
static bool
refuses(const char *what)
{
	if (strcmp(refused, what) != 0)
		return false;
	ERR_put_error(ERR_LIB_USER, 0, 42, __FILE__, __LINE__);
	return true;
}

/*
 * The functions of one digest that stand before those of the provider, and
 * the list of them, as a provider gives it.
 */
#define DIGEST(digest) \
static OSSL_FUNC_digest_newctx_fn *digest##_real_newctx; \
static OSSL_FUNC_digest_init_fn *digest##_real_init; \
static OSSL_FUNC_digest_update_fn *digest##_real_update; \
static OSSL_FUNC_digest_final_fn *digest##_real_final; \
static void * \
digest##_newctx(void *provider) \
{ \
	return refuses(#digest " newctx") ? NULL : \
		digest##_real_newctx(provider); \
} \
static int \
digest##_init(void *state, const OSSL_PARAM params[]) \
{ \
	return !refuses(#digest " init") && digest##_real_init(state, params); \
} \
static int \
digest##_update(void *state, const unsigned char *bytes, size_t len) \
{ \
	return !refuses(#digest " update") && \
		digest##_real_update(state, bytes, len); \
} \
static int \
digest##_final(void *state, unsigned char *bytes, size_t *len, size_t most) \
{ \
	return !refuses(#digest " final") && \
		digest##_real_final(state, bytes, len, most); \
} \
static const OSSL_DISPATCH digest##_functions[] = { \
	{OSSL_FUNC_DIGEST_NEWCTX, (void (*) (void)) digest##_newctx}, \
	{OSSL_FUNC_DIGEST_INIT, (void (*) (void)) digest##_init}, \
	{OSSL_FUNC_DIGEST_UPDATE, (void (*) (void)) digest##_update}, \
	{OSSL_FUNC_DIGEST_FINAL, (void (*) (void)) digest##_final}, \
	{0, NULL} \
}; \
static void \
digest##_keep(const OSSL_DISPATCH *functions) \
{ \
	for (; functions->function_id != 0; functions++) \
	{ \
		if (functions->function_id == OSSL_FUNC_DIGEST_NEWCTX) \
			digest##_real_newctx = OSSL_FUNC_digest_newctx(functions); \
		if (functions->function_id == OSSL_FUNC_DIGEST_INIT) \
			digest##_real_init = OSSL_FUNC_digest_init(functions); \
		if (functions->function_id == OSSL_FUNC_DIGEST_UPDATE) \
			digest##_real_update = OSSL_FUNC_digest_update(functions); \
		if (functions->function_id == OSSL_FUNC_DIGEST_FINAL) \
			digest##_real_final = OSSL_FUNC_digest_final(functions); \
	} \
}

DIGEST(md5)
DIGEST(sha256)

/*
 * The function of libcrypto itself.
 */
static void *
original(const char *name)
{
	void	   *function = dlsym(RTLD_NEXT, name);

	assert_non_null(function);
	return function;
}

OSSL_PROVIDER *
OSSL_PROVIDER_load(OSSL_LIB_CTX *library, const char *name)
{
	OSSL_PROVIDER *(*load) (OSSL_LIB_CTX *, const char *);

	if (refuses("provider"))
		return NULL;
	*(void **) &load = original("OSSL_PROVIDER_load");
	return load(library, name);
}

/*
 * The digests of the provider are these two, or one of them, or MD5 lacks a
 * function.
 */
const OSSL_ALGORITHM *
OSSL_PROVIDER_query_operation(const OSSL_PROVIDER *provider, int operation,
							  int *no_cache)
{
	static OSSL_ALGORITHM ours[] = {
		{"MD5:SSL3-MD5", "provider=default", md5_functions, NULL},
		{"SHA-256:SHA2-256", "provider=default", sha256_functions, NULL},
		{NULL, NULL, NULL, NULL}
	};
	const OSSL_ALGORITHM *(*query) (const OSSL_PROVIDER *, int, int *);
	const OSSL_ALGORITHM *real;

	*(void **) &query = original("OSSL_PROVIDER_query_operation");
	for (real = query(provider, operation, no_cache);
		 real->algorithm_names != NULL; real++)
	{
		if (strncmp(real->algorithm_names, "MD5:", 4) == 0)
			md5_keep(real->implementation);
		if (strncmp(real->algorithm_names, "SHA2-256:", 9) == 0)
			sha256_keep(real->implementation);
	}
	ours[0].implementation = refuses("md5 functions") ?
		md5_functions + 1 : md5_functions;
	ours[1].algorithm_names = refuses("sha256") ? NULL : "SHA-256:SHA2-256";
	return refuses("query") ? NULL : refuses("md5") ? ours + 1 : ours;
}

static bool
report_nothing(void *arg, const char *problem)
{
	(void) arg;
	fail_msg("reported: %s", problem);
	return true;
}

/*
 * Checks that everything that needs a digest says that there is none.
 */
static void
check_refusal(void)
{
	TestRing   *ring = test_ring(HASH_MD5);
	RingDef    *def;
	PointsTaken  *taken = points_taken_create(4, &test_env);
	char		hex[65];
	uint32_t	salts[2] = {0, 0};
	uint32_t	points[2] = {1, 2};
	uint32_t	bad;
	HashStream	stream;

	test_add(ring, "a", 1);
	ring->groups[0].wanted = ring->groups[0].npoints = 2;
	ring->groups[0].points = points;
	def = test_def(ring);
	assert_false(hash_begin(&stream, HASH_MD5));
	assert_false(hash_once(HASH_MD5, "a", 1, points));
	assert_false(hash_candidate(HASH_MD5, "a", 1, 0, points));
	assert_false(digest_begin(DIGEST_SHA256));
	assert_false(fingerprint_hex(def, hex));
	assert_int_equal(check_points(def, &test_env, report_nothing, NULL),
					 RING_NO_HASH);
	assert_int_equal(points_salts(HASH_MD5, test_name("a"), points, 2, salts,
								&bad, &test_env), RING_NO_HASH);
	assert_int_equal(points_extend(HASH_MD5, test_name("a"), taken, points, 0,
								 2, &test_env), RING_NO_HASH);
	assert_int_equal(points_extend(HASH_MD5, test_name("a"), taken, points, 1,
								 2, &test_env), RING_NO_HASH);
}

/*
 * Nothing can be opened.  Errors that were there before stay, those of the
 * refusals do not; and the other hashes need no libcrypto.
 */
static void
has_no_digest(void **state)
{
	static const char *const lacking[] = {
		"provider", "query", "md5", "md5 functions", "md5 newctx"
	};
	size_t		i;

	(void) state;
	ERR_clear_error();
	ERR_put_error(ERR_LIB_USER, 0, 7, __FILE__, __LINE__);
	for (i = 0; i < LENGTH(lacking); i++)
	{
		refused = lacking[i];
		check_refusal();
		assert_int_equal(test_hash(HASH_MURMUR3, "a"), 1009084850);
		assert_int_equal(test_hash(HASH_FNV1A, "a"), 3826002220);
		assert_int_equal(test_hash(HASH_CRC16, "a"), 31879);
	}
	refused = "";
	assert_int_equal(ERR_GET_REASON(ERR_get_error()), 7);
	assert_int_equal(ERR_get_error(), 0);
}

/*
 * Without SHA-256 there is no fingerprint; with it there is, and MD5 too.
 */
static void
has_one_digest(void **state)
{
	static const char *const lacking[] = {"sha256", "sha256 newctx"};
	RingDef		def = {HASH_MURMUR3, false, 0, NULL, 0, NULL};
	char		hex[65];
	size_t		i;

	(void) state;
	for (i = 0; i < LENGTH(lacking); i++)
	{
		refused = lacking[i];
		assert_false(fingerprint_hex(&def, hex));
	}
	refused = "";
	assert_true(fingerprint_hex(&def, hex));
	assert_int_equal(test_hash(HASH_MD5, "a"), 214005177);
}

/*
 * A digest is there and gives up half-way.
 */
static void
gives_up_half_way(void **state)
{
	static const char *const steps[] = {"init", "update", "final"};
	RingDef		def = {HASH_MURMUR3, false, 0, NULL, 0, NULL};
	char		hex[65];
	HashStream	stream;
	uint32_t	position;
	size_t		i;

	(void) state;
	for (i = 0; i < LENGTH(steps); i++)
	{
		refused = test_format("md5 %s", steps[i]);
		assert_false(hash_once(HASH_MD5, "a", 1, &position));
		assert_false(hash_candidate(HASH_MD5, "a", 1, 0, &position));
		assert_int_equal(hash_begin(&stream, HASH_MD5), i > 0);
		assert_int_equal(hash_feed(&stream, "a", 1), i != 1);
		refused = test_format("sha256 %s", steps[i]);
		assert_false(fingerprint_hex(&def, hex));
	}
	refused = "md5 final";
	assert_false(hash_end(&stream, &position));
	refused = "";
	assert_int_equal(test_hash(HASH_MD5, "a"), 214005177);
	assert_true(fingerprint_hex(&def, hex));
}

#else

/*
 * Before providers there is nothing to be refused: the digests are built in.
 */
static void
hashes(void **state)
{
	(void) state;
	assert_int_equal(test_hash(HASH_MD5, "a"), 214005177);
}

#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
		TEST(has_no_digest),
		TEST(has_one_digest),
		TEST(gives_up_half_way)
#else
		TEST(hashes)
#endif
	};

	return cmocka_run_group_tests_name("refusals", tests, NULL, NULL);
}
