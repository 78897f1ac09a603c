-- Who was given the messages of a claim, as a JSON text.
local holders = {}
local function holder(token)
  holders[token] = holders[token] or (redis.call('HGET', claims, token) or ''):match('^[^\n]*')
  return holders[token]
end
