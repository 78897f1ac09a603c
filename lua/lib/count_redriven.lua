-- Counts for a redrive what became of a message that it brought back: acked or died. It is not counted where the redrive
-- has been forgotten.
-- needs: keys: redrives
-- gives: count_redriven
local function count_redriven(job, what)
  if redis.call('HEXISTS', redrives, job .. ' ' .. what) == 1 then
    redis.call('HINCRBY', redrives, job .. ' ' .. what, 1)
  end
end
