-- The messages that a claim hands out are leased to its token. `c` is the claim (Verbs.claim).
local NOT_FRESH = 4096 -- bytes that a message that is not fresh counts for, since it takes as long
local FIRST_WITH_STATE = 1024 -- likewise one that is delivered for the first time, and is delayed, expires or is asked for
local LATER = 'later'
-- The state of a message that was not delivered yet, and the end of that if its result was asked for.
local FIRST, ASKED = '^live %- (%d+) 0 0 0 0 0 0 0(.*)$', '^ result=%d+$'
local FIELD, BIRTH = #State.ASKED - 7, #State.ASKED + 1 -- where ` result=BIRTH` begins in such a state, and the birth
local NOT_DELAYED = ('0'):rep(13)

-- The state line of a first delivery of a message that is due then. Over 64 bytes: Redis would search a list of them.
local function fresh_line(token, due)
  return 'live +' .. token .. ' ' .. due .. ' 1 0 0 0 0 0 ' .. NOT_DELAYED
end

-- The state line of a message that was sent for its result without a delay, and is delivered for the first time; nil: it is
-- another, or there is more. Most are like that where results are asked for, so it uses no long pattern.
--   fresh: the line of one that was not asked for
local function asked_line(text, fresh)
  if text:find(State.ASKED, 1, true) == 1 and text:find('^%d+$', BIRTH) then
    return fresh .. text:sub(FIELD)
  end
end

-- The state line of a message that is delivered for the first time, and may be delayed, expire, or be sent for its result;
-- nil: there is more, which is left to `line_of`. And its state, if it may have a history: `due` is 0 only of what was sent
-- without a delay, and not changed since.
--   fresh: the line of one that was not delayed
local function first_line(q, c, n, record, fresh)
  local flags, text = record:byte(8) or 0x0F, c.texts[n]
  if c.part ~= 'live' or flags % 16 > 9 or flags % 32 > 9 and Record.expiry_in(record) <= q.now then
    return nil
  elseif not text then
    return fresh
  end
  local due, more = text:match(FIRST)
  if not due or more ~= '' and not more:find(ASKED) then
    return nil
  elseif due == '0' then
    return fresh .. more
  end
  -- Its row has the long form (Order), with the birth with which its record begins; or it is left over.
  local is_own = due + 0 <= q.now and c.rows[n] == string.char(9 - flags % 16) .. record:sub(1, 7) .. c.ids[n]
  return is_own and fresh_line(c.token, due) .. more or nil, text
end

-- The state line of any other message. nil if the row of the index is stale (a call was cut off), or if the message is
-- spent or expired, and is buried; LATER if it is of a later form, and its row is put off.
local function line_of(q, c, row, id, record, stated)
  if Record.is_later(record, stated) then
    Places.put_off(q, c.index, row)
    return LATER
  end
  local head = Record.head_in(record, stated)
  local state = State.parse(stated, head.birth)
  local as_stated = state.part == c.part and state.due <= q.now and Order.member_of(id, head, state.due) == row
  if state.mark == '+' and not redis.call('ZSCORE', q.leases, state.token) then
    state.mark = '-' -- another program wrote that: no consumer holds it
  end
  if state.mark == '+' or not as_stated and Places.left_over(q, c.index, row, id, state, head) then
    return nil
  end
  state.part = c.part
  -- the limit may have been lowered since it failed (I6)
  if c.part == 'live' and state.charged > 0 and Judge.is_spent(q, state.charged) then
    Judge.bury(q, id, state, head, 'dead', 'exhausted')
    return nil
  end
  local expiry = c.part == 'live' and State.expiry_of(head, state)
  if expiry and expiry <= q.now then
    Judge.bury(q, id, state, head, 'expired', 'expired')
    return nil
  elseif c.part == 'dead' then
    redis.call('ZREM', q.groups, Groups.row_of(state, row))
  end
  state.deliveries, state.mark, state.token = state.deliveries + 1, '+', c.token
  return State.format(state)
end

-- The state line of a message whose state or flags say more than a priority; its state, if it may have a history; and
-- `most`, less what it counts for beside its bytes.
--   mortal: gets the ids of those that may be in `expiring`
local function stated_line(q, c, n, record, fresh, mortal, most)
  local id, text = c.ids[n], c.texts[n]
  local line, changed = first_line(q, c, n, record, fresh)
  if line then
    mortal[#mortal + 1] = record:byte(8) % 32 > 9 and id or nil
    return line, changed, most - FIRST_WITH_STATE
  end
  line = line_of(q, c, c.rows[n], id, record, text)
  mortal[#mortal + 1] = line ~= LATER and id or nil
  return line, text, most - NOT_FRESH
end

-- Writes the lease, the list of the claim and the states, then removes the rows.
local function write(q, c, lines, taken, mortal, bytes)
  local size = #c.chosen
  if size > 0 then
    if c.answer == 'count' then
      c.reply[3], c.reply[4] = size, bytes
    end
    redis.call('ZADD', q.leases, q.now + c.lease, c.token)
    local kind = c.answer == 'count' and '\tbatch' or c.suspects ~= 'all' and '\tworker' or '' -- the sweep reads it
    if c.by_rate or c.paced then -- what is given back needs it (Leases.handed_out)
      local spent = c.by_rate and c.by_rate.spent + size or 0
      kind = string.format('%s\t\t%.0f/%.0f', kind == '' and '\t' or kind, q.now, spent)
    end
    local list = c.consumer .. kind .. '\n' .. table.concat(c.chosen, '\n')
    redis.call('HSET', q.claims, c.token, list, c.token .. ':held', Values.count(size))
    redis.call('HSET', q.states, unpack(lines)) -- from here on they are leased
  end
  if #taken > 0 then
    redis.call('ZREM', c.index, unpack(taken))
  end
  if mortal and mortal[1] then
    redis.call('ZREM', q.expiring, unpack(mortal))
  end
end

-- Leases messages of the rows, and adds them to the reply. `c.chosen` are their ids; `c.all_taken`: no row is left.
function Deliver.lease(q, c)
  local ids, texts, rows, reply, chosen = c.ids, c.texts, c.rows, c.reply, { nil } -- with room for one message
  local seen, lines, taken, mortal, records, before, read = {}, { nil, nil }, { nil }, nil, nil, 0, 0
  local size, ends, most, bytes = 0, #reply, Bounds.BYTES, 0 -- the lengths of chosen and reply: # would search for them
  local fresh, is_live = fresh_line(c.token, NOT_DELAYED), c.part == 'live'
  for n = 1, #ids do
    if bytes > most then -- the rest stays
      break
    elseif n > read then
      before, records, read = read, Record.read_records(q, ids, texts, n, most - bytes)
    end
    local id, text, found = ids[n], texts[n], records[n - before]
    local record = not seen[id] and found -- a message whose send was cut off and repeated has two rows
    local line, more = record and fresh, record and (record:byte(8) or 0) % 32 > 9 -- its flags hold more than a priority
    local asked = text and record and not more and is_live and asked_line(text, fresh)
    if asked then
      line, text, most = asked, nil, most - FIRST_WITH_STATE
    elseif record and (text or more) then
      mortal = mortal or {}
      line, text, most = stated_line(q, c, n, record, fresh, mortal, most)
    end
    if line ~= LATER then -- otherwise the row stays
      taken[#taken + 1] = rows[n]
      if not found then -- left behind by a send or a purge that was cut off
        Places.drop(q, { id })
      elseif line then
        local story = text and redis.call('HGET', q.history, id) or ''
        size, bytes = size + 1, bytes + #record + #story
        chosen[size], seen[id], lines[2 * size - 1], lines[2 * size] = id, true, id, line
        if c.answer == 'rows' then
          reply[ends + 1], reply[ends + 2], reply[ends + 3], reply[ends + 4] = id, record, line, story
          ends = ends + 4
        end
      end
    end
  end
  c.chosen, c.all_taken = chosen, #taken == #rows
  write(q, c, lines, taken, mortal, bytes)
end
