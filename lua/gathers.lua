-- Gathers: when a number of messages have ended, its children, another message becomes due, `then`. Each queue with
-- children has a share of the gather; the state of a message names it:
--   gather=ID/QUEUE: a child; ID is the message `then`, as Gathers.named has it, QUEUE the queue of that. gather=then: that
--   message
-- `gathers` has, in the bands of the scores that this module names:
--   gather → its number; a half-open interval of one is the gather's. And 15/16: it is closed
--   gather, a blank, id → number + 1/16: the child has not ended; otherwise the place of its end in ENDS, + 1, in
--   sixteenths; and 1/32 if its result was asked for
--   '@', gather → when to look at the share next (Verbs.carry_gather); 0: all of its children have ended
-- and of each gather whose `then` is in the queue, under '#' and ID in place of ID/QUEUE, the same; its children are
--   gather, a blank, queue → the share of this queue has not come yet
--   gather, a blank, queue, a blank, id → a child of a share that has come
--   '+', gather → WAITING + when it was opened, until `then` is made due
Gathers.OPEN, Gathers.ASKED, Gathers.CLOSED = 1 / 16, 1 / 32, 15 / 16
Gathers.THEN, Gathers.WAITING = 'then', 2 ^ 42
Gathers.LOOK = 10000 -- milliseconds between two looks at a share with open children
local ENDS = { 'acked', 'dead', 'expired', 'purged', 'cancelled', 'moved', 'discarded', 'gone' } -- the last: nothing tells
local REMOVED = { acked = true, purged = true, cancelled = true, moved = true, discarded = true }
local FIRST = 2 ^ 43 -- less than the first number
local LAST = 14 / 16 + 1 / 32 -- of the scores of children
local TOGETHER = 1000 -- rows that one command removes

-- The fraction of the score of an ended child; nil: no such end.
local function fraction_of(word)
  for n, one in ipairs(ENDS) do
    if one == word then
      return (n + 1) / 16
    end
  end
end

-- An id of `then` in names of gathers and in states: what divides these is written as in URLs.
function Gathers.named(id)
  return (id:gsub('[%%/ #@]', function(mark)
    return string.format('%%%02X', mark:byte())
  end))
end

-- The id of `then`, by the name of its gather in its queue.
function Gathers.id_of(own)
  return (own:sub(2):gsub('%%(%x%x)', function(code)
    return string.char(tonumber(code, 16))
  end))
end

-- The name of a gather in the queue of its `then`.
function Gathers.own(id)
  return '#' .. Gathers.named(id)
end

-- The gather that a state, or its fields, names; nil: none.
function Gathers.of(more)
  return more ~= '' and more:match(' gather=(%S+)') or nil
end

-- The number of a gather, or of the share of a queue, and whether it is closed; nil: it is not there.
function Gathers.number_of(q, gather)
  local score = tonumber(redis.call('ZSCORE', q.gathers, gather) or nil)
  if score then
    return math.floor(score), score % 1 == Gathers.CLOSED
  end
end

-- A number that no gather of the queue has.
function Gathers.new_number(q)
  return math.floor(math.max(FIRST, tonumber(redis.call('ZRANGE', q.gathers, -1, -1, 'WITHSCORES')[2]) or 0)) + 1
end

-- How many children of a gather have not ended, or how many of its shares have not come.
function Gathers.count_open(q, number)
  return redis.call('ZCOUNT', q.gathers, number + Gathers.OPEN, number + Gathers.OPEN + Gathers.ASKED)
end

-- Rows of children, and their scores, by turns.
--   all: also of those that have ended; from: how many are skipped
function Gathers.rows(q, number, all, from, limit)
  local first, last = number + Gathers.OPEN, number + (all and LAST or Gathers.OPEN + Gathers.ASKED)
  return redis.call('ZRANGEBYSCORE', q.gathers, first, last, 'WITHSCORES', 'LIMIT', from, limit)
end

-- The score of a child with another end; nil: it has none.
function Gathers.score_of(number, word, asked)
  return number + (fraction_of(word) or Gathers.OPEN) + (asked and Gathers.ASKED or 0)
end

-- Whether the result of a child was asked for, by its score.
local function is_asked(score)
  return score * 16 % 1 > 0
end

-- Notes that all children of a closed share have ended: the next claim, or maintenance, carries it to the queue of `then`.
-- Returns whether that is so.
function Gathers.settle(q, gather, number)
  if Gathers.count_open(q, number) > 0 then
    return false
  end
  redis.pcall('ZADD', q.gathers, 0, '@' .. gather)
  redis.pcall('HSET', q.settings, 'gathering', 1)
  q.share_ended = true
  Queue.wake(q)
  return true
end

-- Removes a gather, or a share, with all of its rows; the row that leads to it last.
function Gathers.forget(q, gather)
  local number = Gathers.number_of(q, gather)
  while number do
    local rows = redis.call('ZRANGEBYSCORE', q.gathers, number + Gathers.OPEN, number + LAST, 'LIMIT', 0, TOGETHER)
    if not rows[1] then
      break
    end
    redis.call('ZREM', q.gathers, unpack(rows))
  end
  redis.call('ZREM', q.gathers, gather, '+' .. gather, '@' .. gather)
end

-- Has all shares and gathers looked at next: their messages go with the queue. Returns whether there are any.
function Gathers.leave(q)
  local rows = redis.call('ZRANGEBYSCORE', q.gathers, 0, '(' .. Values.digits(Gathers.WAITING))
  for _, row in ipairs(rows) do
    local gather = row:sub(2)
    local number = Gathers.number_of(q, gather)
    redis.pcall('ZADD', q.gathers, 0, row)
    if number then
      redis.pcall('ZADD', q.gathers, number + Gathers.CLOSED, gather)
    end
  end
  return rows[1] ~= nil
end

-- Notes ends of children of one gather. Once all of the share have ended, the ends stand. A write that fails stops nothing,
-- since a full server must be drained: the end is found later (Gathers.find_ends).
local function note(q, gather, ids, word)
  local number, closed = Gathers.number_of(q, gather)
  if not number or closed and Gathers.count_open(q, number) == 0 then
    return
  end
  local cells = {}
  for _, id in ipairs(ids) do
    local child = gather .. ' ' .. id
    local score = tonumber(redis.call('ZSCORE', q.gathers, child) or nil)
    if score then
      cells[#cells + 1], cells[#cells + 2] = Gathers.score_of(number, word, is_asked(score)), child
    end
  end
  if cells[1] then
    redis.pcall('ZADD', q.gathers, unpack(cells))
    if closed then
      Gathers.settle(q, gather, number)
    end
  end
end

-- Notes the end of a child before it takes effect; or that it is open again, if the word is none of ENDS. With `then` its
-- gather is removed.
--   more: the fields of its state, or all of that
function Gathers.note_end(q, id, more, word)
  local gather = Gathers.of(more)
  if gather == Gathers.THEN then
    if REMOVED[word] then
      Gathers.forget(q, Gathers.own(id))
    else
      redis.call('ZREM', q.gathers, '+' .. Gathers.own(id)) -- it waits for no children any more
    end
  elseif gather then
    note(q, gather, { id }, word)
  end
end

-- The same for acked messages. Returns the gathers whose `then` they are, to be removed when the messages are gone.
--   texts: their states
function Gathers.note_acked(q, ids, texts)
  local by_gather, over = {}, {}
  for n, id in ipairs(ids) do
    local gather = Gathers.of(texts[n])
    if gather == Gathers.THEN then
      if Again.is_asked(texts[n]) then -- its next run has the same gather
        Gathers.note_end(q, id, texts[n])
      else
        over[#over + 1] = Gathers.own(id)
      end
    elseif gather then
      by_gather[gather] = by_gather[gather] or {}
      table.insert(by_gather[gather], id)
    end
  end
  for gather, children in pairs(by_gather) do
    note(q, gather, children, 'acked')
  end
  return over
end

-- The fields of a state without its gather: the message moves to another queue.
function Gathers.left(more)
  if not Gathers.of(more) then
    return more
  end
  return State.without(more, 'gather', more:find(' result=0', 1, true) and 'result' or nil)
end

-- The fields of the state of a child.
function Gathers.joined(more, gather)
  return State.with(Known.linked(more), 'gather', gather)
end

-- The end of a child that was not noted, since version 0.1.0 ended it, or a call was cut off: its outcome says how,
-- or the message itself. nil: it is open.
local function end_of(q, gather, id)
  local text = redis.call('HGET', q.states, id)
  local head, later = Record.head_of(q, id, text)
  if later then
    return nil
  elseif head and Gathers.of(text or '') == gather then
    local part = State.parse(text, head.birth).part
    return part ~= 'live' and part or nil
  end
  local word = (redis.call('HGET', q.results, id) or ''):match('^(%a+) ')
  return fraction_of(word) and word or 'gone'
end

-- Finds ends that were not noted, among `limit` open children from a random one on. Returns whether all these have ended.
function Gathers.find_ends(q, gather, number, limit, seed)
  local from = math.floor(seed * math.max(0, Gathers.count_open(q, number) - limit + 1))
  local rows, found = Gathers.rows(q, number, false, from, limit), 0
  for n = 1, #rows, 2 do
    local word = end_of(q, gather, rows[n]:sub(#gather + 2))
    if word then
      found = found + 1
      redis.call('ZADD', q.gathers, Gathers.score_of(number, word, is_asked(tonumber(rows[n + 1]))), rows[n])
    end
  end
  return found == limit
end

-- Whether a gather takes children of another one: that is over, as far as the queue of `then` tells.
local function is_over(q, there, gather, other)
  local named, to = other:match('^([^/]*)(/.*)$')
  return not Gathers.number_of(q, other) or to == gather:match('/.*$') and not Gathers.number_of(there, '#' .. named)
end

-- The score of a child; its state gets the gather. nil: it is one of another gather, or only a later version can read it.
function Gathers.adopted(q, there, gather, number, id, only_look)
  local state, _, later = State.read(q, id)
  if later then
    return nil
  elseif not state then
    return Gathers.score_of(number, 'acked', true)
  end
  local other = Gathers.of(state.more)
  if other and other ~= gather and (other == Gathers.THEN or not is_over(q, there, gather, other)) then
    return nil
  elseif other ~= gather and not only_look then
    state.more = Gathers.joined(state.more, gather)
    redis.call('HSET', q.states, id, State.format(state))
  end
  return Gathers.score_of(number, state.part, state.more:find(' result=[^0]'))
end
