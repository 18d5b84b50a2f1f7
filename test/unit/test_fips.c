/*
 * test_fips.c
 *		B44: where libcrypto refuses MD5, as in FIPS mode, keys have the same
 *		places.
 *
 * A program of its own, because the configuration is read once.  It demands
 * fips=yes of every algorithm, which no provider here has, except of the
 * random generator.
 */
#include "support.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <unistd.h>

static const char config[] =
	"openssl_conf = init\n"
	"[init]\n"
	"providers = providers\n"
	"alg_section = algorithms\n"
	"random = random\n"
	"[providers]\n"
	"default = default\n"
	"[default]\n"
	"activate = 1\n"
	"[algorithms]\n"
	"default_properties = fips=yes\n"
	"[random]\n"
	"random = CTR-DRBG\n"
	"cipher = AES-256-CTR\n"
	"seed = SEED-SRC\n"
	"properties = -fips\n"
	"seed_properties = -fips\n";

/*
 * The control: without this, the next test would show nothing.
 */
static void
refuses_md5_elsewhere(void **state)
{
	unsigned char digest[EVP_MAX_MD_SIZE];

	(void) state;
	if (OPENSSL_VERSION_NUMBER < 0x30000000L)
		skip();
	assert_int_not_equal(EVP_Digest("a", 1, digest, NULL, EVP_md5(), NULL),
						 1);
}

static void
hashes_all_the_same(void **state)
{
	RingDef		def = {HASH_MD5, false, 0, NULL, 0, NULL};
	char		hex[65];

	(void) state;
	assert_int_equal(test_hash(HASH_MD5, "user:1"), 3182550288);
	assert_int_equal(test_hash(HASH_MURMUR3, "user:1"), 3416794175);
	assert_true(fingerprint_hex(&def, hex));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(refuses_md5_elsewhere),
		TEST(hashes_all_the_same)
	};
	char		path[] = "/tmp/shardring-fips-XXXXXX";
	int			file = mkstemp(path);
	int			failed;

	if (file < 0 ||
		write(file, config, strlen(config)) != (ssize_t) strlen(config))
	{
		perror(path);
		return 1;
	}
	setenv("OPENSSL_CONF", path, 1);
	failed = cmocka_run_group_tests_name("fips", tests, NULL, NULL);
	close(file);
	unlink(path);
	return failed;
}
