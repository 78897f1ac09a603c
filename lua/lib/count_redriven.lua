-- Counts, for a redrive, the outcome of a message that it moved back: acked or died. Not counted if the redrive has been
-- forgotten.
-- needs: keys: redrives
-- gives: count_redriven
local function count_redriven(job, what)
  if redis.call('HEXISTS', redrives, job .. ' ' .. what) == 1 then
    redis.call('HINCRBY', redrives, job .. ' ' .. what, 1)
  end
end
