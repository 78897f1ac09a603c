-- The consumer that was given the messages of a claim, as a JSON text.
-- needs: keys: claims
-- gives: holder
local holders = {}
local function holder(token)
  holders[token] = holders[token] or (redis.call('HGET', claims, token) or ''):match('^[^\t\n]*')
  return holders[token]
end
