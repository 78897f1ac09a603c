-- Reads the outcomes of sends whose results were asked for. Returns each outcome (lib/kept) and the birth of its send (0:
-- unknown); or, if there is none (any more), 1: the message is in the queue; 0: it is not, or its result was not asked for.
-- items from ARGV[1]: id, birth (lib/own_end)
local messages, states, settings, results = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
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
-- Follows an id in `results` and `result_times`: the birth of the send whose outcome is kept under the id (lib/kept). No id has
-- this byte, and the row of a birth comes right after that of its outcome.
local BORN = '\1'
-- The birth of the send whose outcome is kept (lib/kept): `ended` is the outcome, `born` the row of its birth. nil: unknown,
-- since version 0.1.0 kept that outcome.
local function kept_birth(ended, born)
  local head, birth = (born or ''):match('^(%a+ %d+ )(%d+)$')
  birth = head and ended:sub(1, #head) == head and tonumber(birth) or 0
  return birth > 0 and birth or nil
end
-- The outcome of a send, if it is kept (lib/kept), and its birth, 0: unknown. nil: there is none, or that of another send.
--   ended, born: the rows of the id in `results`; since: what ended earlier is no longer kept
--   meant: the birth of the send; 0: the newest send of the id
--   here: the birth of the message that the queue has under the id, nil: none; waits: it is neither dead nor expired
local function own_end(ended, born, since, meant, here, waits)
  local at = ended and tonumber(ended:match('^%a+ (%d+) ') or nil)
  if not at or at <= since then
    return nil
  end
  local birth = kept_birth(ended, born)
  local asked = meant > 0 and meant or here or birth or 0
  -- An outcome without a birth is that of no message that still waits, and of none that was sent later.
  local may_be = asked <= at * 4096 + 4095 and (not here or here == asked and not waits)
  if birth == asked or not birth and may_be then
    return ended, birth or 0
  end
end
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
    -- The birth, the flags, the expiry (0: none) and the lanes (nil: none) of a long record, from the state of its message
    -- (lib/head_word); nil if the state does not have them.
    local function stated_head(text)
      local at = text and text:find(' head=')
      if at then
        local birth, flags, expires = text:match('^ head=(%d+)/(%d+)/(%d+)/%d+', at)
        if birth and #birth <= 16 and #expires <= 14 and tonumber(flags) <= 255 then -- otherwise another program wrote that
          local lane, needs = text:match(' lane=(%d+)'), text:match(' needs=(%d+)')
          return tonumber(birth), tonumber(flags), tonumber(expires), tonumber(lane or nil), tonumber(needs or nil)
        end
      end
    end
    -- Whether a later version wrote a message in a form of its own: its state line begins with the version that reads it,
    -- ">=1.4 ", or its record has that after birth and flags of 0x0F. Only the holder of such a message is known, since every
    -- form has +token or -token. The message is left alone; the index rows that lead to it are put off, so that it blocks no
    -- other message, and a version that can read it finds it.
    local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is checked again

    local function is_later(record, text)
      return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
    end
    -- The flag of a record (lib/record) that has an expiry.
    local EXPIRES = 0x10
    -- The lanes of a message: of its key and of its dependency, the numbers of these (rq_dlq/values/key.py), which precede all
    -- other fields that its sender packed beside the body. nil: it has none.
    --   text: a record or a payload whose flags say that it has such fields; first: where they begin, with their length
    local KEY, DEPENDENCY = 1, 2 -- the numbers of the fields

    local function lanes_in(text, first)
      local lanes, at = {}, first + 2
      for field = KEY, DEPENDENCY do
        local number, high, low, a, b, c, d, e, f = text:byte(at, at + 8)
        if f and number == field then
          lanes[field] = ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
          at = at + 3 + high * 256 + low
        end
      end
      return lanes[KEY], lanes[DEPENDENCY]
    end
    -- The lanes of a message, from its record (lib/lanes_in). nil: it has none.
    local HEADERS = 0x20

    local function lanes_of(record)
      local flags = record:byte(8)
      if flags and math.floor(flags / HEADERS) % 2 == 1 then
        return lanes_in(record, math.floor(flags / EXPIRES) % 2 == 1 and 15 or 9)
      end
    end
    -- Reads the head of a record (lib/record). In a file of its own, since every send defines the function that packs it.
    local TRANSIENT = 0x80

    local function unpack_number(text, first, width)
      local value = 0
      for i = first, first + width - 1 do
        value = value * 256 + text:byte(i)
      end
      return value
    end

    local function has_expiry(record)
      return math.floor((record:byte(8) or 0) / EXPIRES) % 2 == 1
    end

    -- lane: the lane of its key; needs: the lane of its dependency.
    local function as_head(birth, flags, expires, lane, needs)
      return {
        birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
        lane = lane, needs = needs,
      }
    end

    -- Reads the head of a record. A damaged record must still reach the dead-letter queue, so it gets defaults.
    local function read_record(record)
      if #record < 14 and (#record < 8 or has_expiry(record)) then
        return { birth = 0, priority = 4 }
      end
      local flags, expires = record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil
      local lane, needs = lanes_of(record)
      return as_head(unpack_number(record, 1, 7), flags, expires, lane, needs)
    end
    -- The head of a message whose state is `text` (lib/head_in). A long record is not read: the state has its head
    -- (lib/head_word), unless an earlier version sent the message. Returns nil if the message does not exist; nil and true if
    -- it is of a later form.
    local function head_of(id, text)
      local birth, flags, expires, lane, needs = stated_head(text)
      if birth then
        if redis.call('HEXISTS', messages, id) == 0 then
          return nil, false
        elseif is_later('', text) then
          return nil, true
        end
        return as_head(birth, flags, expires > 0 and expires or nil, lane, needs), false
      end
      local record = redis.call('HGET', messages, id)
      if not record then
        return nil, false
      elseif is_later(record, text) then
        return nil, true
      end
      return read_record(record), false
    end
    local head = head_of(ids[n], texts[n])
    here = head and head.birth
  end
  ended, birth = own_end(ended, kept[2 * n], since, meant, here, text == '' or text:find('^live'))
  left[n] = ended and { ended, birth } or asks and (meant == 0 or meant == here) and 1 or 0
end
return left
