package redis

// serverLua is the beginning of all scripts. It finds out, in the same step as the rest,
// which server this is and whether it is the primary. go-redis closes a connection whose
// answer is READONLY; if the address follows the primary, the next connection reaches it.
const serverLua = `
local replication = redis.call('INFO', 'replication')
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local history = string.match(replication, 'master_replid:(%w+)')
if not run or not history then
	return redis.error_reply('NOIDENTITY INFO does not tell run_id and master_replid')
end
local incarnation = run .. '/' .. history
if string.match(replication, 'role:(%w+)') ~= 'master' then
	return redis.error_reply('READONLY this server is a replica')
end
`

// readLua: KEYS is the hash, ARGV the name. It returns the incarnation and the field.
const readLua = serverLua + `
return {incarnation, redis.call('HGET', KEYS[1], ARGV[1]) or ''}
`

// The first value that putLua returns.
const (
	wasConflict = 0
	wasWritten  = 1
	wasRefused  = 2
)

// putLua: KEYS is the hash. ARGV are name, new version, nonce of the holder, record,
// expected version, channel, and incarnation of the record.
//
// A script that is sent twice finds its own version, and knows that it has already written
// (redis-D1). A hash in which no incarnation is adopted gets a mark in the field for it;
// the mark is lost with the hash (redis-D3), and is the third value returned. A failure to
// publish the news is ignored, because waiters also poll. The published text is
// "VERSION:RECORD NAME", with the record free of spaces. Versions of this package that do
// not expect the record take it for a part of the version, which is new to them, and read.
const putLua = serverLua + `
local stored = redis.call('HGET', KEYS[1], ARGV[1])
local version, nonce = '', ''
if stored then
	version, nonce = string.match(stored, '^(%w+) (%w*) ')
end
if version == ARGV[2] then
	return {1, incarnation}
end
if version ~= ARGV[5] then
	return {0, incarnation}
end
local adopted = redis.call('HGET', KEYS[1], '')
if ARGV[3] ~= '' and ARGV[3] ~= nonce and (ARGV[7] ~= incarnation or adopted ~= incarnation) then
	if not adopted then
		adopted = '-' .. ARGV[2]
		redis.call('HSET', KEYS[1], '', adopted)
	end
	return {2, incarnation, string.match(adopted, '^%-.*') or ''}
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
redis.pcall('PUBLISH', ARGV[6], ARGV[2] .. ':' .. string.gsub(ARGV[4], ' ', '\\u0020') .. ' ' .. ARGV[1])
return {1, incarnation}
`

// adoptLua: KEYS is the hash. ARGV are the incarnation, which is marked as adopted if it is
// still that of the server, and the mark in the field for it, which the hash must still
// have; the mark is empty if another incarnation was adopted before.
const adoptLua = serverLua + `
local adopted = redis.call('HGET', KEYS[1], '')
if incarnation == ARGV[1] and adopted and (string.match(adopted, '^%-.*') or '') == ARGV[2] then
	redis.call('HSET', KEYS[1], '', incarnation)
end
return 1
`
