-- Reads the outcomes of sends whose results were asked for. Returns each outcome (lib/kept) and the birth of its send (0:
-- unknown); or, if there is none (any more), 1: the message is in the queue; 0: it is not, or its result was not asked for.
-- items from ARGV[1]: id, birth (lib/own_end)
-- needs: now, span, RESULTS_KEPT, BORN, own_end; keys: states, results, settings
local since = now - (span(redis.call('HGET', settings, 'results')) or RESULTS_KEPT)
local ids, names, left = {}, {}, {}
for n = 1, #ARGV, 2 do
  ids[#ids + 1], names[n], names[n + 1] = ARGV[n], ARGV[n], ARGV[n] .. BORN
end
local kept, texts = redis.call('HMGET', results, unpack(names)), redis.call('HMGET', states, unpack(ids))
for n = 1, #ids do
  local ended, text, meant = kept[2 * n - 1], texts[n] or '', tonumber(ARGV[2 * n])
  local asks = tonumber(text:match(' result=(%d+)') or nil) -- its birth; 1: version 0.1.0 sent it
  local here, birth = asks
  if ended and (not here or here == 1) then
    -- needs: head_of
    local head = head_of(ids[n], texts[n])
    here = head and head.birth
  end
  ended, birth = own_end(ended, kept[2 * n], since, meant, here, text == '' or text:find('^live'))
  left[n] = ended and { ended, birth } or asks and (meant == 0 or meant == here) and 1 or 0
end
return left
