/*
 * digest.c
 *		MD5 and SHA-256 from libcrypto.
 *
 * Rules of this file:
 *	- Both come from a library context of our own with the default provider,
 *	  so that a server in FIPS mode places keys like any other (from OpenSSL 3
 *	  on; before, there are no contexts).  They are opened at the first use and
 *	  kept as long as the process lives, provider and all, so there is nothing
 *	  to give back.
 *	- The functions are the provider's own (see provider-digest(7)), without
 *	  EVP between: an EVP context frees and allocates the state of a digest
 *	  whenever it starts one, a quarter of a short hash, and fetching an EVP_MD
 *	  makes all methods of the provider, a millisecond of a first call.
 *	- There is ONE state of each kind: while a digest is open, no other of its
 *	  kind may be begun.  It may be abandoned at any time.
 *	- Everything that begins, feeds or ends returns false only when libcrypto
 *	  refuses; digest_no_memory says whether it did for want of memory.
 */
#include "digest.h"

#include <errno.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>

static bool no_memory = false;

/*
 * Whether the last refusal was for want of memory.  libcrypto's own errors do
 * not tell, since it needs memory for them too; what malloc says stays in
 * errno.
 */
bool
digest_no_memory(void)
{
	return no_memory;
}

#if OPENSSL_VERSION_NUMBER >= 0x30000000L

#include <openssl/core_dispatch.h>
#include <openssl/provider.h>

/* A digest of the provider; "state" is set last. */
typedef struct Digest
{
	void	   *state;
	OSSL_FUNC_digest_init_fn *init;
	OSSL_FUNC_digest_update_fn *update;
	OSSL_FUNC_digest_final_fn *final;
} Digest;

static bool digest_open(void);
static OSSL_PROVIDER *digest_provider(void);
static bool digest_find(OSSL_PROVIDER *provider, const char *name,
						Digest *digest);
static bool digest_read(OSSL_PROVIDER *provider,
						const OSSL_DISPATCH *functions, Digest *digest);
static bool digest_has_name(const char *names, const char *name);

static Digest digests[2];

/*
 * Begin a digest.
 */
bool
digest_begin(DigestKind kind)
{
	const Digest *digest = &digests[kind];

	return (digest->state != NULL || digest_open()) &&
		digest->init(digest->state, NULL) == 1;
}

/*
 * Feed the next piece of the input.
 */
bool
digest_feed(DigestKind kind, const void *bytes, size_t len)
{
	return digests[kind].update(digests[kind].state, bytes, len) == 1;
}

/*
 * The digest of all that was fed: 16 bytes of MD5, 32 of SHA-256.
 */
bool
digest_end(DigestKind kind, uint8_t bytes[DIGEST_MAX])
{
	size_t		len;

	return digests[kind].final(digests[kind].state, bytes, &len,
							   DIGEST_MAX) == 1;
}

/*
 * Makes sure that both are available.  A refusal leaves nothing in libcrypto's
 * error queue, where it could be taken for somebody else's, and is tried again
 * at the next call.
 */
static bool
digest_open(void)
{
	OSSL_PROVIDER *provider;
	bool		ok;

	ERR_set_mark();
	errno = 0;
	provider = digest_provider();
	ok = provider != NULL &&
		digest_find(provider, "MD5", &digests[DIGEST_MD5]) &&
		digest_find(provider, "SHA2-256", &digests[DIGEST_SHA256]);
	no_memory = !ok && errno == ENOMEM;
	ERR_pop_to_mark();
	return ok;
}

/*
 * The default provider in a context that no configuration reaches, or NULL.
 * A context in which it could not be loaded is not tried again: where memory
 * was short, it may stay as it is for ever.
 */
static OSSL_PROVIDER *
digest_provider(void)
{
	static OSSL_LIB_CTX *library = NULL;
	static OSSL_PROVIDER *provider = NULL;

	if (library == NULL)
		library = OSSL_LIB_CTX_new();
	if (library != NULL && provider == NULL)
		provider = OSSL_PROVIDER_load(library, "default");
	if (provider == NULL)
	{
		OSSL_LIB_CTX_free(library);
		library = NULL;
	}
	return provider;
}

/*
 * Looks up a digest of the provider, and makes its state.
 */
static bool
digest_find(OSSL_PROVIDER *provider, const char *name, Digest *digest)
{
	const OSSL_ALGORITHM *algorithm;
	int			no_cache;

	if (digest->state != NULL)
		return true;
	algorithm = OSSL_PROVIDER_query_operation(provider, OSSL_OP_DIGEST,
											  &no_cache);
	for (; algorithm != NULL && algorithm->algorithm_names != NULL;
		 algorithm++)
	{
		if (digest_has_name(algorithm->algorithm_names, name))
			return digest_read(provider, algorithm->implementation, digest);
	}
	return false;
}

/*
 * Takes the functions that are needed out of a provider's list of them.
 */
static bool
digest_read(OSSL_PROVIDER *provider, const OSSL_DISPATCH *functions,
			Digest *digest)
{
	OSSL_FUNC_digest_newctx_fn *make = NULL;

	for (; functions->function_id != 0; functions++)
	{
		switch (functions->function_id)
		{
			case OSSL_FUNC_DIGEST_NEWCTX:
				make = OSSL_FUNC_digest_newctx(functions);
				break;
			case OSSL_FUNC_DIGEST_INIT:
				digest->init = OSSL_FUNC_digest_init(functions);
				break;
			case OSSL_FUNC_DIGEST_UPDATE:
				digest->update = OSSL_FUNC_digest_update(functions);
				break;
			case OSSL_FUNC_DIGEST_FINAL:
				digest->final = OSSL_FUNC_digest_final(functions);
				break;
		}
	}
	if (make == NULL || digest->init == NULL || digest->update == NULL ||
		digest->final == NULL)
		return false;
	digest->state = make(OSSL_PROVIDER_get0_provider_ctx(provider));
	return digest->state != NULL;
}

/*
 * Whether a name is among those that colons separate.
 */
static bool
digest_has_name(const char *names, const char *name)
{
	size_t		len = strlen(name);

	while (strncmp(names, name, len) != 0 ||
		   (names[len] != ':' && names[len] != '\0'))
	{
		names = strchr(names, ':');
		if (names == NULL)
			return false;
		names++;
	}
	return true;
}

#else							/* before providers, EVP is the lowest level */

static EVP_MD_CTX *digests[2];

bool
digest_begin(DigestKind kind)
{
	bool		ok;

	errno = 0;
	ERR_set_mark();
	if (digests[kind] == NULL)
		digests[kind] = EVP_MD_CTX_new();
	ok = digests[kind] != NULL &&
		EVP_DigestInit_ex(digests[kind], kind == DIGEST_MD5 ? EVP_md5() :
						  EVP_sha256(), NULL) == 1;
	ERR_pop_to_mark();
	no_memory = !ok && errno == ENOMEM;
	return ok;
}

bool
digest_feed(DigestKind kind, const void *bytes, size_t len)
{
	return EVP_DigestUpdate(digests[kind], bytes, len) == 1;
}

bool
digest_end(DigestKind kind, uint8_t bytes[DIGEST_MAX])
{
	return EVP_DigestFinal_ex(digests[kind], bytes, NULL) == 1;
}

#endif
