-- SPDX-License-Identifier: ISC
-- Names that changed since a number.  KEYS: dv, di.  ARGV: that number, how many at most.
-- Answer: { 'ok', number now, name, its number, name, its number ... }.
local answer = { 'ok', tonumber(redis.call('GET', KEYS[1]) or '0') }
local found = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[1], '+inf', 'WITHSCORES',
    'LIMIT', 0, tonumber(ARGV[2]))

for i = 1, #found, 2 do
	answer[#answer + 1] = found[i]
	answer[#answer + 1] = tonumber(found[i + 1])
end
return answer
