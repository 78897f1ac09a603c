-- Reads the outcomes of messages whose results were asked for. Returns each outcome (lib/kept); or, if there is none (any
-- more), 1: the message is in the queue; 0: it is not, or its result was not asked for.
-- items from ARGV[1]: id
local states, settings, results = KEYS[1], KEYS[2], KEYS[3]
-- The server's clock in whole milliseconds, read once per script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- A duration in the queue's settings, in milliseconds; nil if the text is not one, which counts as unset.
local function span(text)
  local value = tonumber(text and text:match('^%d+$') or nil)
  return value and value > 0 and value <= 315360000000 and value or nil -- ten years
end
-- Milliseconds for which results are kept if the settings do not set it.
local RESULTS_KEPT = 3600000
local since = now - (span(redis.call('HGET', settings, 'results')) or RESULTS_KEPT)
local ids, left = ARGV, {}
local ends, texts = redis.call('HMGET', results, unpack(ids)), redis.call('HMGET', states, unpack(ids))
for n = 1, #ids do
  local at = ends[n] and tonumber(ends[n]:match('^%a+ (%d+) ') or nil)
  left[n] = at and at > since and ends[n] or (texts[n] or ''):find(' result=', 1, true) and 1 or 0
end
return left
