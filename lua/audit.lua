-- The audit of a queue: notes of what operators did to it, of which it keeps the newest thousand.
local MOST_NOTES = '1000'
local NEAR = 10 -- newest notes among which the note of the call before is, even if several operators act concurrently

-- Records an act of an operator, or one that an operator had ordered.
--   did: the act, in a word; by: the operator, as JSON; user: the Redis user; then more names and values
function Audit.note(q, did, by, user, ...)
  redis.call('XADD', q.audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
  redis.call('PERSIST', q.audit) -- the queue may have been deleted (delete), and created again
end

-- Records an act of an operator on messages. Its calls leave one note, with how many it has changed so far.
--   act: its id, its name, the operator (as JSON), the Redis user, which messages, how; a JSON list. Empty: no note
--   number: how many messages this call changed; 0: no note
function Audit.note_act(q, act, number)
  local told = Values.json(act)
  if not told[1] or number == 0 then
    return
  end
  local before
  for _, note in ipairs(redis.call('XREVRANGE', q.audit, '+', '-', 'COUNT', NEAR)) do
    local cells = note[2]
    if not before and cells[7] == 'act' and cells[8] == told[1] and cells[9] == 'number' then
      before, number = note[1], number + tonumber(cells[10])
    end
  end
  Audit.note(q, told[2], told[3], told[4], 'act', told[1], 'number', number, 'chosen', told[5], 'how', told[6])
  if before then
    redis.call('XDEL', q.audit, before)
  end
end

-- Records an act of an operator that takes one call.
--   act: as in Audit.note_act; empty: no note
function Audit.note_once(q, act)
  local told = Values.json(act)
  if told[1] then
    Audit.note(q, told[2], told[3], told[4], 'act', told[1], 'chosen', told[5], 'how', told[6])
  end
end
