-- Puts dead letters and expired messages back that were exported, as they were then. An id that the queue knows, in
-- whatever state, is left as it is. Returns which items it knew: 1 is the first; -1 where the queue was deleted since the
-- client opened it: then nothing was done.
local number, opening = ARGV[1], ARGV[2]
-- items from ARGV[3]: id, record, state, history (may be empty)
local messages, states, history, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, expired, expiring, counters, settings = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local groups, redrives, sender = KEYS[11], KEYS[12], KEYS[13]
-- Whether this call was done before (I12): then the count that was noted with it, else false. The register of a sender
-- holds the number of its last call that was done here. A sender makes one call at a time, so a number that is not
-- higher is that call again, or an older one that arrives late. A value, not a function, which would cost Redis as
-- much as a command.
local register = redis.call('GET', sender)
local done = register and tonumber(number) <= tonumber(register:match('^%d+') or 0) and tonumber(register:match('%d*$'))
if done then
  -- What a call said of the items that it knew already, as noted with it when it was done before (lib/done): numbers, and
  -- names of places.
  local function known_before()
    local known = {}
    for word in (register:match(' (.*) ') or ''):gmatch('%S+') do
      known[#known + 1] = tonumber(word) or word
    end
    return known
  end
  return known_before()
end
-- Whether the queue is the one that the client has opened, not deleted since. An empty `opening`: the client cannot tell.
local is_open = opening == '' or redis.call('HGET', settings, 'opening') == opening
-- Notes that the call is done (lib/noted), and how many messages it changed. Returns that count. `more`: what else the call
-- returns.
local function note_done(count, more)
  local note = (more or '') .. count
  -- Notes in the register of its sender (lib/done) that the call is done: `note` is the count, before it what else the call
  -- returns. The last that a script does: if it is cut off before, a repetition does the rest. The note stays for an hour,
  -- far longer than any call is repeated. Statements, as in lib/chosen.
  local noted = number .. ' ' .. note
  redis.call('PSETEX', sender, '3600000', noted)
  return noted and count
end
-- The flag of a record (lib/record) that has an expiry.
local EXPIRES = 0x10
-- Reads what the scripts need of a record (lib/record). Apart from what packs it, which every send defines.
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

local function as_head(birth, flags, expires)
  return {
    birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
  }
end

-- Reads what the scripts need of a record. A damaged record still has to reach the dead-letter queue, so it reads as
-- something.
local function read_record(record)
  if #record < 14 and (#record < 8 or has_expiry(record)) then
    return { birth = 0, priority = 4 }
  end
  return as_head(unpack_number(record, 1, 7), record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil)
end
-- The mutable half of a message: one line of text, and the truth about where the message is; the sorted sets are
-- indexes of it. Absent until someone claims or delays the message, unless its record is long.
--   part[/reason] (+|-)token due deliveries charged nacked lapsed released redriven delay{ name=value}
-- part: live, dead or expired; +token holds it, -token held it last (so that a repeated call is known, I12);
-- due: when it becomes ready, or when it died; 0: when it was born; delay: of the last redelivery, milliseconds;
-- name=value: head (lib/head_word), rest (lib/put), expires (lib/redriven_expiry), untried (lib/attempts), passed_on
-- (pass_on.lua), or a field that this version does not know, kept as it is. One that is not there has its default.
local STATE = '^(%a+)/?(%a*) ([+-])(%S*) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$'
local MORE = ' [%w_]+=%S*'
local LATER = 2 ^ 42 -- milliseconds: no score has room for a later time (lib/order), so someone else wrote that

local function new_state(due)
  return {
    part = 'live', reason = '', mark = '-', token = '', due = due, delay = 0, more = '',
    deliveries = 0, charged = 0, nacked = 0, lapsed = 0, released = 0, redriven = 0,
  }
end

local function parse_state(text, birth)
  local s = new_state(math.floor(birth / 4096))
  local part, reason, mark, token, due, deliveries, charged, nacked, lapsed, released, redriven, delay, more
  if text then
    part, reason, mark, token, due, deliveries, charged, nacked, lapsed, released, redriven, delay, more =
      text:match(STATE)
  end
  if part and (more == '' or more:gsub(MORE, '') == '') then
    s.part, s.reason, s.mark, s.token = part, reason, mark, token
    local at = tonumber(due)
    s.due = at > 0 and at < LATER and at or s.due
    s.deliveries, s.charged, s.nacked = tonumber(deliveries), tonumber(charged), tonumber(nacked)
    s.lapsed, s.released, s.redriven = tonumber(lapsed), tonumber(released), tonumber(redriven)
    s.delay, s.more = tonumber(delay), more
  end
  return s
end

local function format_state(s)
  local part = s.reason == '' and s.part or s.part .. '/' .. s.reason
  return table.concat({
    part, s.mark .. s.token, s.due, s.deliveries, s.charged, s.nacked, s.lapsed, s.released, s.redriven, s.delay,
  }, ' ') .. s.more
end

-- When a message expires, if it does. A death ends the time to live: what was redriven does not expire again, unless the
-- redrive gave it another (lib/redriven_expiry).
local function expiry_of(head, state)
  if state.redriven == 0 then
    return head.expires
  end
  return tonumber(state.more:match(' expires=(%d+)') or nil)
end
-- Bytes. The state of a message whose record is longer has its head (lib/head_word).
local LONG = 2048
-- The word in the state of a message whose record is long: what the scripts need of the record, and its length. So they
-- need not read the body, since Redis cannot read a part of a hash's field. Empty for a short record.
--    head=birth/flags/expiry/length; expiry 0: none
local function head_word(record)
  if #record <= LONG then
    return ''
  end
  local head = read_record(record)
  return string.format(' head=%.0f/%d/%.0f/%d', head.birth, record:byte(8), head.expires or 0, #record)
end
-- The fields of a state (lib/state) with the head of this record.
local function with_head(more, record)
  return more:gsub(' head=%S*', '') .. head_word(record)
end
-- The immutable half of a message, written once by send:
--   7 bytes  birth: its millisecond * 4096 + its number there; unique among what is sent to a queue
--   1 byte   flags: the priority in the low four bits, 0x10 if an expiry follows, 0x80 for a message that is not kept
--            when it fails (persistent=False); the other bits are the sender's
--   6 bytes  expiry in milliseconds, only with that flag
--   …        what the sender packed: fields, headers and body; no script looks into it, and none writes it again
-- Flags of 0x0F, and the mark of a version after them: a record of a later form (lib/later).

-- A whole number in `width` bytes, at most seven. Each step is spelled out, since a loop costs Redis a command's time.
local function pack_number(value, width)
  local g = value % 256
  value = (value - g) / 256
  local f = value % 256
  value = (value - f) / 256
  local e = value % 256
  value = (value - e) / 256
  local d = value % 256
  value = (value - d) / 256
  local c = value % 256
  value = (value - c) / 256
  local b = value % 256
  return string.char((value - b) / 256 % 256, b, c, d, e, f, g):sub(-width)
end
-- The order of an index (I8): priority, then due time, then send order. The score holds priority and due time. Redis
-- sorts ties of the score by the bytes of the member, so the member begins with the send order. While the message is
-- due when it was born, that is its number within the millisecond, since the score holds the millisecond already (2
-- bytes, the first 16 to 31). Otherwise it is 9 - priority and the whole birth (8 bytes, the first 0 to 9).
-- A scheduled message is never due in the millisecond of its birth, not even after the clock stepped back: promote
-- reads the priority from the member.
local BAND = 2 ^ 42

local function score_of(priority, due)
  return (9 - priority) * BAND + due
end

-- The send order but its last byte, which is that of the birth.
local function order_of(head, due)
  local number = head.birth % 4096
  local last = number % 256
  if (head.birth - number) / 4096 == due then
    return string.char(16 + (number - last) / 256)
  end
  return string.char(9 - head.priority) .. pack_number((head.birth - last) / 256, 6)
end

local function member_of(id, head, due)
  return order_of(head, due) .. string.char(head.birth % 256) .. id
end
-- The only way a message gets a row in an index, but for what moves many at once: sent and promote. The new row is written
-- first, then the state, which is the moment it counts; the caller removes the old row last (lib/leave). A script that is
-- cut off leaves at worst a row that the state contradicts, and whoever meets that row removes it (I9). Returns the new
-- row: its index and its member.
--   waits: for state.due. The due time alone would not tell: after the clock stepped back, a message that was ready may
--   be due in the future.
--   rest: of a dead or expired message, when its rest ends (lib/past_resting); nil: it does not rest
--   arrive: writes a record, and a history, that the queue does not have yet; nil: it has them
local in_group

local function put(id, state, head, waits, rest, arrive)
  local member, index, score = member_of(id, head, state.due), scheduled, state.due
  if state.part == 'dead' then
    index = dead
  elseif state.part == 'expired' then
    index = expired
  elseif not waits then
    index, score = ready, score_of(head.priority, state.due)
  end
  redis.call('ZADD', index, score, member)
  local expires = state.part == 'live' and expiry_of(head, state)
  if expires then
    redis.call('ZADD', expiring, expires, id)
  end
  state.mark = '-'
  local died_again = state.part ~= 'live' and state.more:match(' redrive=([^/ ]+)/') -- see lib/bring_back
  if died_again then
    state.more = state.more:gsub(' redrive=%S*', '')
  end
  if rest or state.more:find(' rest=') then
    state.more = state.more:gsub(' rest=%d+', '') .. (rest and ' rest=' .. rest or '')
  end
  if state.part == 'dead' and not state.more:find(' group=', 1, true) then
    -- The line of the newest failure in a history (lib/remember); empty: there is none.
    local FAILURES = { nacked = true, lapsed = true, passed_on = true, poisoned = true, dead_lettered = true }

    local function last_failure(story)
      local first, from, to = 1, 1, 0
      while first <= #story do
        local last = (story:find('\n', first, true) or #story + 1) - 1
        if FAILURES[story:match('^[%a_]*', first)] then
          from, to = first, last
        end
        first = last + 2
      end
      return story:sub(from, to)
    end
    -- The group of a dead letter: the fingerprint of the failure that it died of, which is the newest one in its history.
    local function group_of(id, state)
      local expired = state.reason == 'expired'
      local failure = last_failure(redis.call('HGET', history, id) or '')
      if expired and tonumber(failure:match('^%S*\t(%d+)') or nil) ~= state.due then
        failure = '' -- it expired by itself
      end
      local group = failure:match('"fingerprint":"(%w*)"') or '' -- in a text the quotes would be escaped
      return group == '' and expired and 'expired' or group:sub(1, 12)
    end
    state.more = state.more .. ' group=' .. group_of(id, state)
  end
  redis.call('HSET', states, id, format_state(state))
  if arrive then
    arrive()
  end
  if state.part == 'dead' then -- the last: so each row of `groups` is one of a dead letter
    in_group = in_group or (function()
      -- The row of a dead letter in `groups`: its group, when it died, and its row in `dead`. All scores are 0, so Redis sorts
      -- by bytes: a group is a range that begins with its oldest letter, and so is what has the same first six digits.
      --   group: twelve digits, lapsed, expired, or empty: the failure has no fingerprint
      local function group_row(group, died, member)
        return string.format('%-12s', group) .. pack_number(died, 6) .. member
      end
      -- The row in `groups` of a dead letter with this state, whose row in `dead` is `member`.
      local function row_in_groups(state, member)
        return group_row(state.more:match(' group=(%S*)') or '', state.due, member)
      end
      return row_in_groups
    end)()
    redis.call('ZADD', groups, 0, in_group(state, member))
  end
  if died_again then
    -- Counts for a redrive what became of a message that it brought back: acked or died. It is not counted where the redrive
    -- has been forgotten.
    local function count_redriven(job, what)
      if redis.call('HEXISTS', redrives, job .. ' ' .. what) == 1 then
        redis.call('HINCRBY', redrives, job .. ' ' .. what, 1)
      end
    end
    count_redriven(died_again, 'died')
  end
  return index, member
end
-- Numbers a letter that is dead again with an old time of death, after an undo or an import: it stands among those that a
-- redrive under way has still to take, and was not there when that began (lib/returned_since).
local marked -- the number of what this call returns

local function mark_returned(state)
  marked = marked or redis.call('HINCRBY', counters, 'returned', 1)
  state.more = state.more:gsub(' returned=%S*', '') .. ' returned=' .. marked
end
if not is_open then
  return -1
end
local known = {}
for i = 3, #ARGV, 4 do
  local id, record, story = ARGV[i], ARGV[i + 1], ARGV[i + 3]
  if redis.call('HEXISTS', messages, id) == 1 then
    known[#known + 1] = (i + 1) / 4
  else
    local head = read_record(record)
    local state = parse_state(ARGV[i + 2], head.birth)
    state.more = with_head(state.more, record)
    mark_returned(state)
    put(id, state, head, nil, nil, function()
      redis.call('HDEL', history, id) -- of a call that was cut off
      if story ~= '' then
        redis.call('HSET', history, id, story)
      end
      redis.call('HSET', messages, id, record) -- from here on it is there
    end)
    redis.call('HINCRBY', counters, 'sent', 1)
  end
end
note_done(#known, #known > 0 and table.concat(known, ' ') .. ' ')
return known
