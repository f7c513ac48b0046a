package redis

// serverLua is what all scripts begin with: which server this is, and that it is the
// primary. INFO says it in the same step as the rest. A client of go-redis closes a
// connection that is answered with READONLY: a new one may reach the primary, where an
// address follows it.
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

// readLua: KEYS the hash; ARGV the name. It answers with the incarnation and the
// field.
const readLua = serverLua + `
return {incarnation, redis.call('HGET', KEYS[1], ARGV[1]) or ''}
`

// What putLua answers first.
const (
	wasConflict = 0
	wasWritten  = 1
	wasRefused  = 2
)

// putLua: KEYS the hash; ARGV name, new version, nonce of the holder, record,
// version that is expected, channel, incarnation of the record. A script that is sent twice finds its own
// version and has written already (redis-D1). A hash in which no incarnation is adopted gets a mark in its
// place, which is lost with the hash (redis-D3), and is told third. News that cannot be told are no
// failure: waiters poll. What is told is "VERSION:RECORD NAME", the record without a
// space; versions of this package that do not know the record take it for a part of
// the version, which is news to them, and read.
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

// adoptLua: KEYS the hash; ARGV the incarnation, which is marked as adopted if
// it still is the server's, and the mark in its place, which has to be the hash's still, or empty
// where another incarnation was.
const adoptLua = serverLua + `
local adopted = redis.call('HGET', KEYS[1], '')
if incarnation == ARGV[1] and adopted and (string.match(adopted, '^%-.*') or '') == ARGV[2] then
	redis.call('HSET', KEYS[1], '', incarnation)
end
return 1
`
