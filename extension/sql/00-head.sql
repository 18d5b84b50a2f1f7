/*
 * 00-head.sql
 *		The two schemas, and the rules of the install script.
 *
 * The script is the files of this folder in the order of their names: tables,
 * what keeps them sound, then what people call, in the chapters Define, Route,
 * Look, Move, Pictures, and Proxies and shards.
 *
 * Rules of all parts:
 *	- schema shardring holds what the reference documents, and what other
 *	  servers call by name; schema shardring_internal all other functions;
 *	- the schema is always written out: the control file says pg_catalog, so
 *	  that nobody can plant a schema "shardring" before the extension exists;
 *	- nothing is replaced and nothing is created "if not exists";
 *	- plpgsql bodies run with search_path = pg_catalog, pg_temp and qualify
 *	  every object of ours; SQL bodies are parsed here, under the same path;
 *	- inside a query, columns carry an alias and arguments the function's
 *	  name, since both are called ring and version;
 *	- names are compared as bytes: our columns have COLLATE "C", and so has
 *	  what plpgsql compares of arguments and variables, which it gives the
 *	  collation of the call; fields of our rows and SQL bodies need none;
 *	- a function that changes something or connects is not executable by
 *	  PUBLIC, one that only reads is; an internal one is where such a function
 *	  calls it with the rights of its caller; none is SECURITY DEFINER;
 *	- every object has its COMMENT and its grants beside it.
 *
 * Who holds which lock, once for all functions below: what changes the set
 * of versions (draft_version, seal, activate, drop_version, prune, drop_ring)
 * takes the row of the ring first, see lock_ring.  What edits a draft takes
 * the row of the version, see lock_draft.  Plain SQL on the rows of a version
 * holds the version's row FOR SHARE, see protect_rows.  Locks on a ring come
 * before locks on its versions.
 */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION shardring" to load this file. \quit

CREATE SCHEMA shardring;
COMMENT ON SCHEMA shardring IS
	'versioned consistent-hash rings: where a key lives and what moves';
GRANT USAGE ON SCHEMA shardring TO PUBLIC;

CREATE SCHEMA shardring_internal;
COMMENT ON SCHEMA shardring_internal IS
	'functions called by schema shardring, not meant for direct use';
GRANT USAGE ON SCHEMA shardring_internal TO PUBLIC;

